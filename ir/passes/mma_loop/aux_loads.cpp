// Gives the auxiliary loads of back-to-back GEMMs (a bias, for instance) a TMA ring of their own.
//
// Before:  for k { .. c = dot a, b; t = load_view T[.., k]; d = add c, t .. }
// After:   for k, slot, phase { the producer thread copies step k + slots - 1 into the slot before;
//                               .. channel_wait slot, phase; t = smem_load ring[slot];
//                               channel_release slot; d = add c, t .. }
// A peeled iteration, or the overlapped tail of a tile, takes these ops with it.
#include <algorithm>
#include <vector>

#include "ir/passes/mma_loop/mma_loop.h"

namespace tegula::ir {

OpId MmaLoop::first_user(Value v) const {
  for (OpId op : k.ops(body))
    if (is_used(k, v, op)) return op;
  return {};
}

/// One wait, in front of the first read, and one release after the last.
void MmaLoop::read_aux() {
  if (!aux_) return;
  aux_carry_ = k[loop].results.size();
  aux_position_ = add_carry(aux_->begin);
  std::vector<OpId> ops;
  for (OpId op : k.ops(body)) ops.push_back(op);
  const auto place = [&](const OperandLoad* load) {
    return std::ranges::find(ops, first_user(k[load->load].results[0])) - ops.begin();
  };
  std::vector<const OperandLoad*> loads;
  for (const OperandLoad& load : aux_->ring.loads()) loads.push_back(&load);
  std::ranges::sort(loads, {}, place);
  for (const OperandLoad* load : loads) {
    const Value loaded = k[load->load].results[0];
    Builder b = before(first_user(loaded));
    b.loc = k[load->load].loc;
    if (load == loads.front()) aux_->ring.wait(b, aux_position_);
    const Value read = b.op(Opcode::SmemLoad, {load->ring, aux_position_.slot}, k.type(loaded));
    k.replace_all_uses(loaded, read);
    if (load == loads.back())
      aux_->ring.release(b, aux_position_.slot, b.flag(true), /*generic_proxy=*/true);
  }
  advance(*aux_, aux_position_);
}

void MmaLoop::fill_aux(Builder& b) {
  if (aux_) prefetch_next(b, *aux_, aux_position_);
}

void MmaLoop::end_aux(OpId op) {
  if (!aux_) return;
  const auto& results = k[op].results;
  aux_->end = {results[aux_carry_], results[aux_carry_ + 1]};
}

}  // namespace tegula::ir
