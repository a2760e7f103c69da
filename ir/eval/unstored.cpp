#include "ir/eval/unstored.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/access.h"
#include "ir/eval/absent_loads.h"

namespace tegula::ir::interp {
namespace {

bool is_stored(const MemoryRegion& r, const std::byte* address) {
  if (r.shadow == nullptr) return false;
  const auto i = (reinterpret_cast<std::uintptr_t>(address) - r.shadow->begin) / r.shadow->granule;
  const Shadow& s = r.shadow->shadows[i];
  return s.writer != 0 || s.atomic != 0;
}

struct Missing {
  std::int64_t count = 0, all = 0;
  Ints first;
};

Missing missing_of(const MemoryRegion& r) {
  const TensorArg& t = *r.tensor;
  Missing m;
  if (std::ranges::find(t.dims, 0) != t.dims.end()) return m;
  Ints index(t.dims.size(), 0);
  for (bool more = true; more;) {
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * t.strides[d];
    ++m.all;
    if (!is_stored(r, r.base + offset * size_bytes(t.dtype)) && m.count++ == 0) m.first = index;
    more = false;
    for (std::size_t d = index.size(); d-- > 0 && !more;) {
      more = ++index[d] < t.dims[d];
      if (!more) index[d] = 0;
    }
  }
  return m;
}

OpId first_store_to(const Kernel& k, Value view) {
  OpId found;
  walk(k, k.body(), [&](OpId op) {
    if (!found && k[op].opcode == Opcode::StoreView && accessed_view(k[op]) == view) found = op;
  });
  return found;
}

}  // namespace

void note_drop(Program& p, OpId store, const MemoryRegion& region, const std::byte* address) {
  constexpr std::size_t kMost = 256;
  Evaluation& e = p.evaluation();
  if (!e.options.find_unstored || std::ranges::find(p.dropped, store) != p.dropped.end()) return;
  p.dropped.push_back(store);
  const std::lock_guard lock(e.mutex);
  if (e.drops.size() < kMost) e.drops.push_back({store, &region, address, p.coordinates()});
}

void find_unstored(Evaluation& e) {
  const Kernel& k = e.kernel;
  for (std::size_t i = 0; i < k.params().size(); ++i) {
    const Param& param = k.params()[i];
    const MemoryRegion* r = e.memory.region_of_param(i);
    const Type type = k.type(param.value);
    if (!r || !r->tensor || !type.is_view() || type.view_facts().access != Access::Out ||
        param.attrs.i(AttrName::partial) == 1)
      continue;
    const Missing m = missing_of(*r);
    if (m.count == 0) continue;
    OpId store = first_store_to(k, param.value);
    std::array<std::int64_t, 3> program{};
    std::string text =
        fmt::format("{} of {} elements of {} were stored by no program, first {}[{}]", m.count,
                    m.all, r->name, r->name, fmt::join(m.first, ", "));
    std::erase_if(e.drops,
                  [&](const Evaluation::Drop& d) { return d.region == r && is_stored(*r, d.at); });
    const auto drop = std::ranges::min_element(
        e.drops, {}, [&](const Evaluation::Drop& d) { return std::pair(d.region != r, d.at); });
    if (drop != e.drops.end() && drop->region == r) {
      store = drop->op;
      program = drop->program;
      if (const auto index =
              index_of_address(*r->tensor, reinterpret_cast<std::uintptr_t>(drop->at)))
        text += "; " + left_out(k, e.args, store, r->name, *index);
    }
    e.found.push_back(
        {store, {FindingKind::Unstored, std::move(text), store ? k[store].loc : Loc(), program}});
  }
}

}  // namespace tegula::ir::interp
