#include "ir/passes/mma_loop/channel_ring.h"

#include "ir/analysis/tma_access.h"
#include "ir/layout/shared_layout.h"

namespace tegula::ir {

Value ChannelRing::allocate_words(Builder& b, std::size_t count) const {
  const auto n = static_cast<int>(count);
  const SharedLayout words = SharedLayout::plain({slots_, n}, 8, {1, 0});
  return b.op(Opcode::SmemAlloc, {},
              Type::shared(DType::i64, Ints{slots_, n}, intern_layout(words)));
}

void ChannelRing::allocate_channels(Builder& b) {
  const SharedLayout bars = SharedLayout::plain({slots_}, 8, {0});
  const Type channel = Type::shared(DType::i64, Ints{slots_}, intern_layout(bars));
  full_ = b.op(Opcode::SmemAlloc, {}, channel);
  empty_ = b.op(Opcode::SmemAlloc, {}, channel);
  const OpId init = b.effect(Opcode::ChannelInit, {full_, empty_});
  Kernel& k = b.kernel();
  if (is_multicast_) k[init].attrs.set(AttrName::cluster_ctas, std::int64_t{k.info.cluster});
}

void ChannelRing::allocate_slots(Builder& b) {
  const Loc loc = b.loc;
  for (OperandLoad& load : loads_) {
    b.loc = b.kernel()[load.load].loc;
    load.ring = b.op(Opcode::SmemAlloc, {}, tma_ring_type(b.kernel(), load, slots_));
  }
  b.loc = loc;
}

RingPosition ChannelRing::next(Builder& b, RingPosition position) const {
  if (slots_ == 1) return {position.slot, b.op(Opcode::Xor, {position.phase, b.i32(1)})};
  const Value slot = b.add(position.slot, b.i32(1));
  const Value wraps = b.cmp("eq", slot, b.i32(slots_));
  return {b.select(wraps, b.i32(0), slot),
          b.op(Opcode::Xor, {position.phase, b.cast(wraps, DType::i32)})};
}

RingPosition ChannelRing::back(Builder& b, RingPosition position, int steps) const {
  const Value wraps = b.cmp("lt", position.slot, b.i32(steps));
  return {b.select(wraps, b.add(position.slot, b.i32(slots_ - steps)),
                   b.sub(position.slot, b.i32(steps))),
          b.op(Opcode::Xor, {position.phase, b.cast(wraps, DType::i32)})};
}

RingPosition ChannelRing::after(Builder& b, RingPosition position, Value steps) const {
  // Slot and phase repeat after two rounds.
  const Value rest = b.rem(steps, b.constant(b.kernel().type(steps), std::int64_t{2} * slots_));
  const Value slot = b.add(position.slot, b.cast(rest, DType::i32));
  const Value rounds = b.div(slot, b.i32(slots_));
  return {b.rem(slot, b.i32(slots_)),
          b.op(Opcode::Xor, {position.phase, b.op(Opcode::And, {rounds, b.i32(1)})})};
}

void ChannelRing::release(Builder& b, Value slot, Value condition, bool generic_proxy) const {
  std::vector<Value> operands{empty_, slot, condition};
  if (is_multicast_) operands.push_back(is_multicast_);
  const OpId release = b.effect(Opcode::ChannelRelease, operands);
  if (generic_proxy) b.kernel()[release].attrs.set(AttrName::generic_proxy, std::int64_t{1});
}

void ChannelRing::fill(Builder& b, IterationOffsets& offsets, Value slot, Value free) const {
  for (const OperandLoad& load : loads_) offsets.read_entries(b, load);
  if (free) b.effect(Opcode::ChannelWait, {empty_, slot, free});
  std::int64_t bytes = 0;
  for (const OperandLoad& load : loads_) bytes += slot_bytes(b.kernel().type(load.ring));
  b.effect(Opcode::ChannelExpectTx, {full_, slot}, {{AttrName::bytes, bytes}});
  for (const OperandLoad& load : loads_) {
    const Value into[] = {load.ring, slot, full_};
    offsets.copy(b, load, Opcode::CopyTma, into);
  }
}

void ChannelRing::put(Builder& b, Value words, std::span<const Value> numbers, Value slot,
                      Value free) const {
  b.effect(Opcode::ChannelWait, {empty_, slot, free});
  std::vector<Value> operands{words, slot, full_};
  operands.insert(operands.end(), numbers.begin(), numbers.end());
  b.effect(Opcode::PublishTile, operands);
}

}  // namespace tegula::ir
