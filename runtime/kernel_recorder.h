#pragma once
// Compiled kernels of a process with what a bundle needs of them.
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/bundle.h"
#include "runtime/compiled_kernel.h"

namespace tegula::runtime {

/// Keeps, while it lives, an entry for each kernel of a GPU that the process compiles or finds. One
/// at a time.
class KernelRecorder {
 public:
  KernelRecorder();
  ~KernelRecorder();
  KernelRecorder(const KernelRecorder&) = delete;
  KernelRecorder& operator=(const KernelRecorder&) = delete;

  std::optional<BundledKernel> find(const CompiledKernel& kernel) const;

  /// The one that lives; null for none.
  static KernelRecorder* current();
  void record(std::shared_ptr<const CompiledKernel> kernel, BundledKernel entry);

 private:
  mutable std::mutex mutex_;
  std::map<std::shared_ptr<const CompiledKernel>, BundledKernel> entries_;
};

}  // namespace tegula::runtime
