// Marks stored elements and reports the missing ones.
#include "codegen/sim/unstored.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>

namespace tegula::sim {

bool Unstored::Argument::is_stored(std::uint64_t address) const {
  // CTAs on several host threads mark elements concurrently.
  return std::atomic_ref(const_cast<std::uint8_t&>(stored[number(address)]))
             .load(std::memory_order_relaxed) != 0;
}

Unstored::Unstored(std::span<const GlobalRange> ranges) {
  for (const GlobalRange& r : ranges) {
    if (!r.must_be_stored || !r.tensor || r.begin == r.end) continue;
    Argument a;
    a.range = &r;
    a.begin = reinterpret_cast<std::uintptr_t>(r.begin);
    a.end = reinterpret_cast<std::uintptr_t>(r.end);
    a.size = static_cast<std::uint64_t>(size_bytes(r.tensor->dtype));
    a.stored.assign((a.end - a.begin + a.size - 1) / a.size, 0);
    lowest_ = std::min(lowest_, a.begin);
    highest_ = std::max(highest_, a.end);
    arguments_.push_back(std::move(a));
  }
}

void Unstored::mark(std::uint64_t address, std::uint64_t bytes) {
  for (Argument& a : arguments_) {
    const std::uint64_t end = std::min(address + bytes, a.end);
    for (std::uint64_t element = std::max(address, a.begin); element < end; element += a.size)
      std::atomic_ref(a.stored[a.number(element)]).store(1, std::memory_order_relaxed);
  }
}

void Unstored::note(ir::OpId op, std::uint64_t address) {
  for (Argument& a : arguments_) {
    if (address < a.begin || address >= a.end || a.is_stored(address)) continue;
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(a.left_out, op, &LeftOut::op);
    if (known == a.left_out.end())
      a.left_out.push_back({op, address});
    else if (a.is_stored(known->address) || address < known->address)
      known->address = address;
  }
}

std::vector<Finding> Unstored::find(const ir::Kernel& kernel) const {
  std::vector<Finding> found;
  for (const Argument& a : arguments_)
    if (Finding f = finding(a, kernel); f.count > 0) found.push_back(std::move(f));
  return found;
}

/// The count is the number of missing elements; 0: none.
Finding Unstored::finding(const Argument& a, const ir::Kernel& kernel) {
  const ir::TensorArg& t = *a.range->tensor;
  Finding f;
  f.kind = Detector::Unstored;
  f.count = 0;
  if (std::ranges::find(t.dims, 0) != t.dims.end()) return f;
  ir::Ints index(t.dims.size(), 0), first;
  std::int64_t all = 0, missing = 0;
  for (bool more = true; more;) {
    auto address = reinterpret_cast<std::uintptr_t>(t.base);
    for (std::size_t d = 0; d < index.size(); ++d)
      address += static_cast<std::uintptr_t>(index[d] * t.strides[d] * size_bytes(t.dtype));
    ++all;
    if (!a.is_stored(address) && missing++ == 0) {
      first = index;
      f.address = address;
    }
    more = false;
    for (std::size_t d = index.size(); d-- > 0 && !more;) {
      more = ++index[d] < t.dims[d];
      if (!more) index[d] = 0;
    }
  }
  if (missing == 0) return f;
  f.count = 1;
  f.text = fmt::format("{} of {} elements of {} were stored by no program, first {}[{}]", missing,
                       all, a.range->name, a.range->name, fmt::join(first, ", "));
  const std::vector<StoreSource>& stores = a.range->stores;
  if (!stores.empty()) f.loc = stores.front().loc;
  const auto cause = std::ranges::min_element(a.left_out, {}, [&](const LeftOut& l) {
    return std::pair(a.is_stored(l.address), l.address);
  });
  if (cause == a.left_out.end() || a.is_stored(cause->address)) return f;
  f.loc = kernel[cause->op].loc;
  const auto source = std::ranges::find(stores, f.loc, &StoreSource::loc);
  if (const auto index = ir::index_of_address(t, cause->address))
    f.text += source != stores.end()
                  ? "; " + source->left_out(*index)
                  : fmt::format("; the store here leaves out {}[{}], as its value is absent there",
                                a.range->name, fmt::join(*index, ", "));
  return f;
}

}  // namespace tegula::sim
