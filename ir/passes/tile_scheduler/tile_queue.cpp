#include "ir/passes/tile_scheduler/tile_queue.h"

namespace tegula::ir {

namespace {
constexpr int kSlots = 2;  // the leader is at most this many tiles ahead
}

TileQueue::TileQueue(Builder& b, Value total, const TileFacts& facts)
    : channel_(b.kernel(), kSlots, {}), facts_(&facts), total_(total) {
  AttrList counter;
  counter.set(AttrName::part, "counter");
  counter_ = b.kernel().add_param("tile_counter", Type::pointer(DType::u32), counter);
  channel_.allocate_channels(b);
  words_ = channel_.allocate_words(b, 1 + facts.count());
  programs_ = b.op(Opcode::NumPrograms, {}, Type::scalar(DType::i32), {{AttrName::axis, 0}});
  leader_ = b.op(Opcode::Leader, std::initializer_list<Value>{});
}

void TileQueue::assume_counted(Builder& b, Value tile) {
  b.effect(Opcode::Assume, {b.cmp("ge", tile, b.i32(0))});
}

Value TileQueue::fetch(Builder& b) const { return b.op(Opcode::FetchTile, {counter_, total_}); }

std::vector<Value> TileQueue::by_leader(Builder& b, Value fetched, RingPosition at) const {
  // The programs' own numbers are the first tiles.
  std::vector<Value> numbers{b.add(programs_, fetched)};
  // Behind the last tile is nothing to be known.
  const Value tile = b.op(Opcode::Min, {numbers[0], b.sub(total_, b.i32(1))});
  assume_counted(b, tile);
  for (Value fact : facts_->of(b, tile, total_)) numbers.push_back(fact);
  channel_.put(b, words_, numbers, at.slot, b.op(Opcode::Xor, {at.phase, b.i32(1)}));
  return numbers;
}

std::vector<Value> TileQueue::hand_over(Builder& b, Value fetched, RingPosition at) const {
  Kernel& k = b.kernel();
  const std::vector<Type> types(1 + facts_->count(), Type::scalar(DType::i32));
  const OpId branch = b.make_if(leader_, types);
  Builder leader(k, k[branch].regions[0]), others(k, k[branch].regions[1]);
  leader.loc = others.loc = b.loc;
  leader.yield(by_leader(leader, fetched, at));
  others.yield(std::vector<Value>(types.size(), others.op(Opcode::Poison, {}, types[0])));
  channel_.wait(b, at);
  std::vector<Value> operands{words_, at.slot};
  operands.insert(operands.end(), k[branch].results.begin(), k[branch].results.end());
  const OpId taken = b.create(Opcode::TakeTile, operands, types);
  channel_.release(b, at.slot, b.flag(true));
  return {k[taken].results.begin(), k[taken].results.end()};
}

}  // namespace tegula::ir
