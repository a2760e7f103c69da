#pragma once
// Records the compiled kernels of a process for a bundle.
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/bundle.h"
#include "runtime/compiled_kernel.h"

namespace tegula::runtime {

/// During its lifetime, keeps an entry for each GPU kernel that the process compiles or finds. Only
/// one may exist at a time.
class KernelRecorder {
 public:
  KernelRecorder();
  ~KernelRecorder();
  KernelRecorder(const KernelRecorder&) = delete;
  KernelRecorder& operator=(const KernelRecorder&) = delete;

  std::optional<BundledKernel> find(const CompiledKernel& kernel) const;

  /// Returns the existing recorder, or null.
  static KernelRecorder* current();
  void record(std::shared_ptr<const CompiledKernel> kernel, BundledKernel entry);

 private:
  mutable std::mutex mutex_;
  std::map<std::shared_ptr<const CompiledKernel>, BundledKernel> entries_;
};

}  // namespace tegula::runtime
