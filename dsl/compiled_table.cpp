#include "dsl/compiled_table.h"

#include <iterator>
#include <utility>

namespace tegula::dsl {

CompiledTable::Kernel CompiledTable::find(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto at = by_name_.find(name);
  if (at == by_name_.end()) return nullptr;
  order_.splice(order_.begin(), order_, at->second);
  return at->second->kernel;
}

void CompiledTable::add(const std::string& name, Kernel kernel) {
  Order gone;  // its kernels are freed after the lock is released
  const std::lock_guard lock(mutex_);
  if (by_name_.contains(name)) return;
  order_.push_front({name, std::move(kernel)});
  by_name_.emplace(order_.front().name, order_.begin());
  gone = without_oldest_unused();
}

std::size_t CompiledTable::size() {
  const std::lock_guard lock(mutex_);
  return order_.size();
}

/// Requires the lock. While it is held, a kernel that only the table owns cannot gain an owner.
CompiledTable::Order CompiledTable::without_oldest_unused() {
  Order gone;
  for (auto next = order_.end(); next != order_.begin() && order_.size() > kMaxCompiledKernels;) {
    const auto at = std::prev(next);
    if (at->kernel.use_count() > 1) {
      next = at;
      continue;
    }
    by_name_.erase(at->name);
    gone.splice(gone.begin(), order_, at);
  }
  return gone;
}

CompiledTable& compiled_by_ir() {
  static auto* const table =
      new CompiledTable;  // kernels may be launched while statics are destroyed
  return *table;
}

}  // namespace tegula::dsl
