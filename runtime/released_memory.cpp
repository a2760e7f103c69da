#include "runtime/released_memory.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>

namespace tegula::runtime {
namespace {

struct Released {
  std::mutex mutex;
  std::map<std::uintptr_t, ir::ReleasedMemory> by_begin;
  std::atomic<bool> is_empty = true;  ///< read without the lock
};

Released& released() {
  static auto* all = new Released();  // leaked: tensors may outlive static destructors
  return *all;
}

/// Removes the marks in [begin, end). Requires the lock.
void erase(Released& all, std::uintptr_t begin, std::uintptr_t end) {
  auto r = all.by_begin.upper_bound(begin);
  if (r != all.by_begin.begin() && std::prev(r)->second.end > begin) --r;
  while (r != all.by_begin.end() && r->first < end) {
    const ir::ReleasedMemory old = r->second;
    r = all.by_begin.erase(r);
    if (old.begin < begin) all.by_begin[old.begin] = {old.begin, begin, old.element_bytes};
    if (old.end > end) all.by_begin[end] = {end, old.end, old.element_bytes};
  }
}

}  // namespace

void mark_released(const ir::ReleasedMemory& elements) {
  Released& all = released();
  const std::lock_guard lock(all.mutex);
  erase(all, elements.begin, elements.end);
  ir::ReleasedMemory joined = elements;
  const auto joins = [&](const ir::ReleasedMemory& r) {
    return r.element_bytes == joined.element_bytes;
  };
  auto after = all.by_begin.lower_bound(elements.begin);
  if (after != all.by_begin.end() && after->first == joined.end && joins(after->second)) {
    joined.end = after->second.end;
    after = all.by_begin.erase(after);
  }
  if (after != all.by_begin.begin())
    if (const auto before = std::prev(after);
        before->second.end == joined.begin && joins(before->second)) {
      joined.begin = before->second.begin;
      all.by_begin.erase(before);
    }
  all.by_begin[joined.begin] = joined;
  all.is_empty = false;
}

void forget_released(std::uintptr_t begin, std::uintptr_t end) {
  Released& all = released();
  if (all.is_empty) return;
  const std::lock_guard lock(all.mutex);
  erase(all, begin, end);
  all.is_empty = all.by_begin.empty();
}

std::vector<ir::ReleasedMemory> released_memory() {
  Released& all = released();
  if (all.is_empty) return {};
  const std::lock_guard lock(all.mutex);
  std::vector<ir::ReleasedMemory> ranges;
  std::ranges::transform(all.by_begin, std::back_inserter(ranges),
                         [](const auto& entry) { return entry.second; });
  return ranges;
}

}  // namespace tegula::runtime
