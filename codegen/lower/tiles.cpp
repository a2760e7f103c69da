// Lowering of tiles by a counter: the leader's fetch, and the number on its way to the other warps.
#include "codegen/lower/lowering.h"

namespace tegula::codegen {

using namespace ir;

void lower_FetchTile(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  if (l.is_compute_role())
    return l.set(d.results[0], l.b.op(Opcode::Poison, {}, Type::scalar(DType::i32)));
  // It counts up to its operand and then begins again.
  const Value last = l.b.cast(l.b.sub(l.get(d.operands[1]), l.b.i32(1)), DType::u32);
  std::vector<Value> operands{l.get(d.operands[0]), last};
  if (const Value leader = l.is_leader()) operands.push_back(leader);
  const Value before =
      l.b.op(Opcode::AtomGlobal, operands,
             {{AttrName::kind, "inc"}, {AttrName::sem, "relaxed"}, {AttrName::scope, "gpu"}});
  l.set(d.results[0], l.b.cast(before, DType::i32));
}

void lower_PutTile(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  l.b.effect(Opcode::StShared, {l.mbarrier(d.operands[0], d.operands[1]), l.get(d.operands[3])},
             {{AttrName::width, 1}});
  l.b.effect(Opcode::MbarArrive, {l.mbarrier(d.operands[2], d.operands[1])});
}

/// Every lane has read before any goes on, so that one may release the slot for all. Where the
/// leader is one of these lanes it reads for those of its warp.
void lower_TakeTile(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  if (l.is_copy_role()) return l.set(d.results[0], l.get(d.operands[2]));
  std::vector<Value> operands{l.mbarrier(d.operands[0], d.operands[1])};
  if (!l.is_compute_role()) operands.push_back(l.b.cmp("eq", l.coordinate(In::Lane), l.b.i32(0)));
  const Value read =
      l.b.op(Opcode::LdShared, operands, Type::scalar(DType::i32), {{AttrName::width, 1}});
  l.set(d.results[0], l.b.op(Opcode::Shfl, {read, l.b.i32(0)}, {{AttrName::mode, "idx"}}));
}

}  // namespace tegula::codegen
