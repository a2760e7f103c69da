// Of a loop of products, the ring of what it loads beside operands.
//
// Before:  for k { .. c = dot a, b; t = load_view T[.., k]; d = add c, t .. }
// After:   for k, slot, phase { the leader copies step k + slots - 1 into the slot before;
//                               .. channel_wait slot, phase; t = smem_load ring[slot];
//                               channel_release slot; d = add c, t .. }
// A step that is peeled, or a tile that comes with the one before, takes these ops with it.
#include <algorithm>
#include <vector>

#include "ir/passes/mma_loop/product_loop.h"

namespace tegula::ir {

OpId ProductLoop::first_user(Value v) const {
  for (OpId op : k.ops(body))
    if (is_used(k, v, op)) return op;
  return {};
}

/// One wait, in front of what is read first, and one release behind the last.
void ProductLoop::read_beside() {
  if (!beside_) return;
  beside_carry_ = k[loop].results.size();
  beside_at_ = add_carry(beside_->begin);
  std::vector<OpId> ops;
  for (OpId op : k.ops(body)) ops.push_back(op);
  const auto place = [&](const OperandLoad* load) {
    return std::ranges::find(ops, first_user(k[load->load].results[0])) - ops.begin();
  };
  std::vector<const OperandLoad*> loads;
  for (const OperandLoad& load : beside_->ring.loads()) loads.push_back(&load);
  std::ranges::sort(loads, {}, place);
  for (const OperandLoad* load : loads) {
    const Value loaded = k[load->load].results[0];
    Builder b = before(first_user(loaded));
    b.loc = k[load->load].loc;
    if (load == loads.front()) beside_->ring.wait(b, beside_at_);
    const Value read = b.op(Opcode::SmemLoad, {load->ring, beside_at_.slot}, k.type(loaded));
    k.replace_all_uses(loaded, read);
    if (load == loads.back())
      beside_->ring.release(b, beside_at_.slot, b.flag(true), /*by_threads=*/true);
  }
  advance(*beside_, beside_at_);
}

void ProductLoop::fill_beside(Builder& b) {
  if (beside_) fill_ahead(b, *beside_, beside_at_);
}

void ProductLoop::end_beside(OpId op) {
  if (!beside_) return;
  const auto& results = k[op].results;
  beside_->end = {results[beside_carry_], results[beside_carry_ + 1]};
  if (!is_skipped_by_others()) return;
  Builder b = Builder::behind(k, op);
  beside_->end = counted_end(b, *beside_);
}

}  // namespace tegula::ir
