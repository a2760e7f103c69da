#include "ir/passes/tile_queue.h"

namespace tegula::ir {

namespace {
constexpr int kSlots = 2;  // the leader is at most this many tiles ahead
}

TileQueue::TileQueue(Builder& b, Value total) : channel_(b.kernel(), kSlots, {}), total_(total) {
  AttrList counter;
  counter.set(AttrName::part, "counter");
  counter_ = b.kernel().add_param("tile_counter", Type::pointer(DType::u32), counter);
  channel_.allocate_channels(b);
  numbers_ = channel_.allocate_words(b);
  programs_ = b.op(Opcode::NumPrograms, {}, Type::scalar(DType::i32), {{AttrName::axis, 0}});
  leader_ = b.op(Opcode::Leader, std::initializer_list<Value>{});
}

Value TileQueue::fetch(Builder& b) const { return b.op(Opcode::FetchTile, {counter_, total_}); }

Value TileQueue::hand_over(Builder& b, Value fetched, RingPosition at) const {
  // The programs' own numbers are the first tiles.
  const Value number = b.add(programs_, fetched);
  const OpId branch = b.make_if(leader_, {});
  Builder inner(b.kernel(), b.kernel()[branch].regions[0]);
  inner.loc = b.loc;
  channel_.put(inner, numbers_, number, at.slot, inner.op(Opcode::Xor, {at.phase, inner.i32(1)}));
  channel_.wait(b, at);
  const Value taken = b.op(Opcode::TakeTile, {numbers_, at.slot, number});
  channel_.release(b, at.slot, b.flag(true));
  return taken;
}

}  // namespace tegula::ir
