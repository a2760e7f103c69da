// Lowering of channels and TMA copies: mbarriers, tensor maps, one bulk copy for each piece of a
// swizzled tile.
#include <algorithm>

#include "codegen/lower/lowering.h"
#include "codegen/lower/shared.h"
#include "ir/analysis/access_width.h"

namespace tegula::codegen {

using namespace ir;

namespace {

constexpr std::int64_t kBarrierBytes = 8;

/// View dimensions, innermost first: the contiguous one, the tile's others, the rest.
Ints map_order(const Kernel& k, const OpData& d, int fast) {
  const auto axes = d.attrs.ints(AttrName::axes);
  Ints order{axes[static_cast<std::size_t>(fast)]};
  for (std::size_t t = 0; t < axes.size(); ++t)
    if (static_cast<int>(t) != fast) order.push_back(axes[t]);
  for (std::int64_t v = k.type(d.operands[3]).rank() - 1; v >= 0; --v)
    if (std::ranges::find(order, v) == order.end()) order.push_back(v);
  return order;
}

}  // namespace

Value Lowering::mbarrier(Value machine_channel, Value machine_slot) {
  const Value base = shared_address(from[from[machine_channel].def].attrs.i(AttrName::offset));
  return b.add(base, b.mul(get(machine_slot), b.i32(kBarrierBytes)));
}

Value Lowering::tensor_map(Value machine_view, const Ints& order, const Ints& box, int swizzle) {
  const Param& p = *params_.at(machine_view);
  AttrList attrs;
  attrs.set(AttrName::arg, static_cast<std::int64_t>(&p - from.params().data()));
  attrs.set(AttrName::part, "map");
  attrs.set(AttrName::order, order);
  attrs.set(AttrName::box, box);
  attrs.set(AttrName::swizzle, std::int64_t{swizzle});
  for (const Param& made : to.params())
    if (made.attrs == attrs) return made.value;
  return to.add_param(p.name + "_map", Type::tensor_map(), attrs);
}

void lower_Leader(Lowering& l, OpId op) {
  const Value leader = l.is_leader();
  l.set(l.from[op].results[0], leader ? leader : l.b.flag(true));
}

void Lowering::init_channels(std::span<const OpId> inits) {
  const Value first = b.cmp("eq", b.op(Opcode::Tid, std::initializer_list<Value>{}), b.i32(0));
  const RegionId outer = b.region();
  b.at_end(to[b.make_if(first, {})].regions[0]);
  for (OpId op : inits)
    for (std::size_t i = 0; i < from[op].operands.size(); ++i) {
      const Value channel = from[op].operands[i];
      const std::int64_t slots = from.type(channel).shape()[0];
      const std::int64_t offset = from[from[channel].def].attrs.i(AttrName::offset);
      for (std::int64_t s = 0; s < slots; ++s)
        b.effect(Opcode::MbarInit, {shared_address(offset + s * kBarrierBytes)},
                 {{AttrName::count, i == 0 ? 1 : warps()}});
    }
  b.effect(Opcode::FenceMbarInit, {});
  b.at_end(outer);
  // What threads wrote to this memory before comes before what TMA will write.
  b.effect(Opcode::FenceProxyAsync, {});
  barrier();
}

void lower_ChannelInit(Lowering& l, OpId op) { l.init_channels({&op, 1}); }

void lower_ChannelRelease(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Value lane = l.b.cmp("eq", l.coordinate(In::Lane), l.b.i32(0));
  l.b.effect(Opcode::MbarArrive,
             {l.mbarrier(d.operands[0], d.operands[1]), l.both(lane, l.get(d.operands[2]))});
}

void lower_ChannelExpect(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  l.b.effect(Opcode::MbarExpectTx, {l.mbarrier(d.operands[0], d.operands[1])},
             {{AttrName::bytes, d.attrs.i(AttrName::bytes)}});
}

void lower_ChannelWait(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  l.b.effect(Opcode::MbarWait, {l.mbarrier(d.operands[0], d.operands[1]), l.get(d.operands[2])});
}

void lower_CopyTma(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Value view = d.operands[3];
  const SlotAt at = slot_of(l, d.operands[0], d.operands[1]);
  const int fast = at.layout.order()[0];
  const Piece piece = at.layout.piece_list().front();
  const int width = piece.width / at.layout.element_bytes();
  const Ints order = map_order(l.from, d, fast);
  Ints box(order.size(), 1);
  box[0] = width;
  const auto axes = d.attrs.ints(AttrName::axes);
  for (std::size_t t = 0; t < axes.size(); ++t)
    if (static_cast<int>(t) != fast)
      box[static_cast<std::size_t>(std::ranges::find(order, axes[t]) - order.begin())] =
          at.layout.shape()[static_cast<int>(t)];
  const Value map = l.tensor_map(view, order, box, piece.swizzle);
  const Value barrier = l.mbarrier(d.operands[2], d.operands[1]);
  std::vector<Value> corner;
  for (std::int64_t v : order)
    corner.push_back(l.b.cast(l.get(d.operands[4 + static_cast<std::size_t>(v)]), DType::i32));
  for (int p = 0; p < piece.count; ++p) {
    ir::Dims first = ir::Dims::filled(at.layout.rank(), 0);
    first[fast] = p * width;
    std::vector<Value> operands{map, l.b.add(at.base, l.b.i32(at.layout.offset(first))), barrier};
    operands.insert(operands.end(), corner.begin(), corner.end());
    if (p > 0) operands[3] = l.b.add(corner[0], l.b.i32(p * width));
    l.b.create(Opcode::TmaLoad, operands, std::span<const Type>());
  }
}

}  // namespace tegula::codegen
