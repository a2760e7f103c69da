#pragma once
// The process's compiled kernels, keyed by their IR: lambdas with identical IR are compiled once.
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/compiled_kernel.h"

namespace tegula::dsl {

/// Number of kernels in the table above which kernels without other owners are evicted.
inline constexpr std::size_t kMaxCompiledKernels = 512;

/// Thread-safe. Kernel objects and call plans own the kernels that they have launched. The table
/// keeps the most recently used of the other kernels, so that a process that creates kernels with
/// different IR indefinitely uses bounded memory, except for machine code that a GPU has loaded.
class CompiledTable {
 public:
  using Kernel = std::shared_ptr<const runtime::CompiledKernel>;

  /// Returns null if the table does not contain the kernel.
  Kernel find(const std::string& name);
  /// Adds the kernel unless the table contains one of this name.
  void add(const std::string& name, Kernel kernel);
  std::size_t size();

 private:
  struct Entry {
    std::string name;
    Kernel kernel;
  };
  using Order = std::list<Entry>;

  /// Removes the least recently used entries without other owners until the table is within its
  /// limit.
  Order without_oldest_unused();

  std::mutex mutex_;
  Order order_;  ///< most recently used first
  std::unordered_map<std::string_view, Order::iterator> by_name_;
};

/// The table of the process.
CompiledTable& compiled_by_ir();

}  // namespace tegula::dsl
