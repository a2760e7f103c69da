// Lowering of the dynamic tile scheduler: the producer thread fetches a tile id and passes it on to
// the other warps.
#include "codegen/lower/lowering.h"

namespace tegula::codegen {

using namespace ir;

void lower_FetchTile(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  // The atomic counts up to its operand and then wraps to 0.
  const Value last = l.b.cast(l.b.sub(l.get(d.operands[1]), l.b.i32(1)), DType::u32);
  std::vector<Value> operands{l.get(d.operands[0]), last};
  if (const Value producer_thread = l.is_producer_thread()) operands.push_back(producer_thread);
  const Value before =
      l.b.op(Opcode::AtomGlobal, operands,
             {{AttrName::kind, "inc"}, {AttrName::sem, "relaxed"}, {AttrName::scope, "gpu"}});
  l.set(d.results[0], l.b.cast(before, DType::i32));
}

/// Emits nothing: multicast loads already carry their flags.
void lower_MulticastFlags(Lowering&, OpId) {}

namespace {

constexpr std::int64_t kWordBytes = 8;

/// Returns the address of the first word of the slot.
Value words_of(Lowering& l, const OpData& d) {
  const OpId alloc = l.from[d.operands[0]].def;
  const std::int64_t bytes = l.from.type(d.operands[0]).shape()[1] * kWordBytes;
  return l.b.add(l.shared_address(l.from[alloc].attrs.i(AttrName::offset)),
                 l.b.mul(l.get(d.operands[1]), l.b.i32(bytes)));
}

Value word(Lowering& l, Value words, std::size_t i) {
  return l.b.add(words, l.b.i32(static_cast<std::int64_t>(i) * kWordBytes));
}

}  // namespace

void lower_PublishTile(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Value words = words_of(l, d);
  for (std::size_t i = 3; i < d.operands.size(); ++i)
    l.b.effect(Opcode::StShared, {word(l, words, i - 3), l.get(d.operands[i])},
               {{AttrName::width, 1}});
  l.b.effect(Opcode::MbarArrive, {l.mbarrier(d.operands[2], d.operands[1])});
}

/// All lanes read before they synchronize, and then one lane releases the slot for them (the
/// shuffle, which makes the words uniform, orders no memory). If the producer thread is one of the
/// lanes, only lane 0 reads.
void lower_ReceiveTile(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  if (l.is_producer()) {
    for (std::size_t i : l.kept(d.results)) l.set(d.results[i], l.get(d.operands[2 + i]));
    return;
  }
  const Value words = words_of(l, d);
  for (std::size_t i = 0; i < d.results.size(); ++i) {
    std::vector<Value> operands{word(l, words, i)};
    if (!l.is_consumer()) operands.push_back(l.b.cmp("eq", l.coordinate(HwDim::Lane), l.b.i32(0)));
    const Value read =
        l.b.op(Opcode::LdShared, operands, Type::scalar(DType::i32), {{AttrName::width, 1}});
    l.set(d.results[i], l.b.op(Opcode::Shfl, {read, l.b.i32(0)}, {{AttrName::mode, "idx"}}));
  }
  if (l.is_consumer()) l.b.effect(Opcode::WarpSync, {});
}

}  // namespace tegula::codegen
