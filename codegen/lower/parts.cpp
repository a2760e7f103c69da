// Lowering of slices and concatenations of tiles: a choice of registers if the layouts agree (the
// pass assign_layouts arranges this where it can), else one exchange through shared memory.
#include "codegen/lower/linear_exchange.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/shared.h"
#include "ir/layout/layout_ops.h"

namespace tegula::codegen {

using namespace ir;

namespace {

void say(Lowering& l, OpId op, const char* how) {
  l.context.remark(Remark::Kind::Analysis, l.from[op].loc, how,
                   {{"tile", l.from.type(l.from[op].operands[0]).str()}});
}

/// Returns the parts' registers in the order of the whole; nothing if a part is in other threads.
std::optional<std::vector<std::int64_t>> places_of(const LinearLayout& whole,
                                                   std::span<const TilePart> parts) {
  std::vector<std::int64_t> place(static_cast<std::size_t>(whole.registers()), 0);
  std::int64_t first = 0;
  for (const TilePart& part : parts) {
    const auto box = subtile(whole, part.offset, part.layout->shape());
    if (!box || box->layout != *part.layout) return std::nullopt;
    for (const int reg : box->registers) place[static_cast<std::size_t>(reg)] = first++;
  }
  return place;
}

}  // namespace

void lower_TileSlice(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Value whole = d.operands[0];
  const LinearLayout &layout = layout_of(l.from.type(whole)),
                     &wanted = layout_of(l.from.type(d.results[0]));
  const ir::Dims start = dims_of(d.attrs.ints(AttrName::offsets));
  const auto view = subtile(layout, start, wanted.shape());
  const bool is_load = l.is_sliced_load(whole);
  if (!is_load && (!view || view->layout != wanted)) {
    say(l, op, "sliced through shared memory");
    const TilePart all{l.get(whole), &layout, ir::Dims::filled(layout.rank(), 0)};
    return l.set(d.results[0],
                 assembled_in_memory(l, std::span(&all, 1), layout.shape(), wanted, start));
  }
  if (!view) throw InternalError("tile_slice: " + view.reason());
  if (!is_load) return l.set(d.results[0], l.regs(l.get(whole), view->registers));
  const OpData& load = l.from[l.from[whole].def];
  const SmemSlot slot =
      slot_of(l, load.operands[0], load.operands.size() > 1 ? load.operands[1] : Value());
  l.set(d.results[0], load_shared(l, slot.base, slot.layout, layout, l.from.type(whole).elem(),
                                  true, view->registers));
}

void lower_TileConcat(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const LinearLayout& whole = layout_of(l.from.type(d.results[0]));
  const auto axis = static_cast<int>(d.attrs.i(AttrName::axis));
  std::vector<TilePart> parts;
  std::vector<Value> registers;
  ir::Dims offset = ir::Dims::filled(whole.rank(), 0);
  for (Value v : d.operands) {
    const LinearLayout& layout = layout_of(l.from.type(v));
    parts.push_back({l.get(v), &layout, offset});
    registers.push_back(l.get(v));
    offset[axis] += layout.shape()[axis];
  }
  if (auto place = places_of(whole, parts))
    return l.set(d.results[0], l.regs(l.concat(registers), std::move(*place)));
  say(l, op, "concatenated through shared memory");
  l.set(d.results[0],
        assembled_in_memory(l, parts, whole.shape(), whole, ir::Dims::filled(whole.rank(), 0)));
}

}  // namespace tegula::codegen
