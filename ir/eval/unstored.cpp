#include "ir/eval/unstored.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace tegula::ir::interp {
namespace {

/// Returns the first operand of the op that has an absent element.
std::optional<Value> absent_operand(Program& p, OpId op) {
  for (const Value v : p.op(op).operands)
    if (!p.value(v).is_plain()) return v;
  return std::nullopt;
}

/// Follows an absent value to the load that made it absent: "x at k.cpp:7, which is [90]".
std::string origin_of(Program& p, Value v) {
  const Kernel& k = p.kernel();
  for (OpId def = k[v].def; def; def = k[v].def) {
    if (const auto from = absent_operand(p, def)) {
      v = *from;
      continue;
    }
    if (k[def].opcode != Opcode::LoadView) return op_at(k, def);
    const TileValue& view = p.operand(def, 0);
    const TensorArg& tensor = view.made ? view.made->tensor : *view.region->tensor;
    return fmt::format("{} at {}, which is [{}]", view.made ? "a view" : view.region->name,
                       str(k[def].loc), fmt::join(tensor.dims, ", "));
  }
  return {};
}

bool is_stored(const MemoryRegion& r, const std::byte* at) {
  if (r.shadow == nullptr) return false;
  const auto i = (reinterpret_cast<std::uintptr_t>(at) - r.shadow->begin) / r.shadow->granule;
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
    if (!found && k[op].opcode == Opcode::StoreView && k[op].operands[0] == view) found = op;
  });
  return found;
}

}  // namespace

void note_drop(Program& p, OpId store, const MemoryRegion& region, const std::byte* at) {
  constexpr std::size_t kMost = 256;
  Evaluation& e = p.evaluation();
  if (!e.options.find_unstored || std::ranges::find(p.dropped, store) != p.dropped.end()) return;
  p.dropped.push_back(store);
  std::string why = origin_of(p, p.op(store).operands[1]);
  const std::lock_guard lock(e.mutex);
  if (e.drops.size() < kMost)
    e.drops.push_back({store, &region, at, p.coordinates(), std::move(why)});
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
    const auto drop = std::ranges::find_if(
        e.drops, [&](const Evaluation::Drop& d) { return d.region == r && !is_stored(*r, d.at); });
    if (drop != e.drops.end()) {
      store = drop->op;
      program = drop->program;
      text +=
          fmt::format("; the store at {} leaves out {}, as its value is absent there{}",
                      str(k[store].loc), e.memory.describe(*r, e.memory.address_of(*r, drop->at)),
                      drop->why.empty() ? "" : ": " + drop->why);
    }
    e.found.push_back(
        {store, {FindingKind::Unstored, std::move(text), store ? k[store].loc : Loc(), program}});
  }
}

}  // namespace tegula::ir::interp
