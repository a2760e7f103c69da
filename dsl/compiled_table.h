#pragma once
// Compiled kernels of the whole process by their IR: a lambda made anew compiles nothing.
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/compiled_kernel.h"

namespace tegula::dsl {

/// Kernels of a table, beyond which those go that nothing else holds.
inline constexpr std::size_t kMaxCompiledKernels = 512;

/// Thread-safe. Kernel objects and call plans hold the kernels that they have launched; of the
/// others those stay that were asked for last, so that a process that makes kernels for ever, each
/// of other IR, takes no more memory for ever, but for machine code that a GPU has loaded.
class CompiledTable {
 public:
  using Kernel = std::shared_ptr<const runtime::CompiledKernel>;

  /// Null where it is not there.
  Kernel find(const std::string& name);
  /// Keeps the kernel, unless there is one of this name.
  void add(const std::string& name, Kernel kernel);
  std::size_t size();

 private:
  struct Entry {
    std::string name;
    Kernel kernel;
  };
  using Order = std::list<Entry>;

  /// Takes out the entries that have not been asked for the longest and that nothing else holds,
  /// as many as there are too many.
  Order without_oldest_unused();

  std::mutex mutex_;
  Order order_;  ///< that which was asked for last comes first
  std::unordered_map<std::string_view, Order::iterator> by_name_;
};

/// The table of the process.
CompiledTable& compiled_by_ir();

}  // namespace tegula::dsl
