#include "ir/passes/tile_scheduler/dynamic_tile_scheduler.h"

namespace tegula::ir {

namespace {
constexpr int kSlots = 2;  // the producer thread is at most this many tiles ahead
}

DynamicTileScheduler::DynamicTileScheduler(Builder& b, Value total, const TileMetadata& facts,
                                           bool in_turn)
    : channel_(kSlots, {}), facts_(&facts), total_(total) {
  if (!in_turn) {
    AttrList counter;
    counter.set(AttrName::component, "counter");
    counter_ = b.kernel().add_param("tile_counter", Type::pointer(DType::u32), counter);
  }
  channel_.allocate_channels(b);
  words_ = channel_.allocate_words(b, 1 + facts.count());
  programs_ = program_of(b, Opcode::NumPrograms);
  producer_thread_ = b.op(Opcode::ProducerThread, std::initializer_list<Value>{});
}

void DynamicTileScheduler::assume_counted(Builder& b, Value tile) {
  b.effect(Opcode::Assume, {b.cmp("ge", tile, b.i32(0))});
}

Value DynamicTileScheduler::fetch(Builder& b, Value tile) const {
  if (!counter_) return tile;
  return b.op(Opcode::FetchTile, {counter_, total_});
}

std::vector<Value> DynamicTileScheduler::by_producer(Builder& b, Value fetched,
                                                     RingPosition position) const {
  // The program ids of the CTAs are the first tile ids.
  std::vector<Value> numbers{b.add(programs_, fetched)};
  // Tiles after the last one have no metadata, so clamp the id.
  const Value tile = b.op(Opcode::Min, {numbers[0], b.sub(total_, b.i32(1))});
  assume_counted(b, tile);
  for (Value fact : facts_->of(b, tile, total_)) numbers.push_back(fact);
  channel_.put(b, words_, numbers, position.slot, b.op(Opcode::Xor, {position.phase, b.i32(1)}));
  return numbers;
}

std::vector<Value> DynamicTileScheduler::broadcast_tile(Builder& b, Value fetched,
                                                        RingPosition position) const {
  Kernel& k = b.kernel();
  const std::vector<Type> types(1 + facts_->count(), Type::scalar(DType::i32));
  const OpId branch = b.make_if(producer_thread_, types);
  Builder producer(k, k[branch].regions[0]), others(k, k[branch].regions[1]);
  producer.loc = others.loc = b.loc;
  producer.yield(by_producer(producer, fetched, position));
  others.yield(std::vector<Value>(types.size(), others.op(Opcode::Poison, {}, types[0])));
  channel_.wait(b, position);
  std::vector<Value> operands{words_, position.slot};
  operands.insert(operands.end(), k[branch].results.begin(), k[branch].results.end());
  const OpId taken = b.create(Opcode::ReceiveTile, operands, types);
  channel_.release(b, position.slot, b.flag(true));
  return {k[taken].results.begin(), k[taken].results.end()};
}

}  // namespace tegula::ir
