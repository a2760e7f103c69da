#include "codegen/lower/producer_slice.h"

#include <algorithm>

#include "ir/analysis/invariant_load.h"
#include "ir/analysis/producer_thread.h"
#include "ir/loop.h"
#include "ir/op.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Returns true if the kernel has channels and initializes all of them at the top level.
bool are_channels_first(const Kernel& k) {
  int all = 0, first = 0;
  walk(k, k.body(), [&](OpId op) { all += k[op].opcode == Opcode::ChannelInit ? 1 : 0; });
  for (OpId op : k.ops(k.body())) first += k[op].opcode == Opcode::ChannelInit ? 1 : 0;
  return all > 0 && all == first;
}

}  // namespace

std::optional<ProducerSlice> ProducerSlice::of(const Kernel& machine) {
  if (!are_channels_first(machine)) return std::nullopt;
  ProducerSlice slice(machine);
  slice.find_leaders();
  if (slice.producers_.empty() || !slice.is_legal()) return std::nullopt;
  return slice;
}

std::optional<ProducerSlice> ProducerSlice::carry_slice(const Kernel& machine, OpId loop) {
  ProducerSlice slice(machine);
  for (Value v : machine[loop].results) slice.need(v);
  if (!slice.is_legal()) return std::nullopt;
  return slice;
}

void ProducerSlice::find_leaders() {
  const Kernel& k = *k_;
  std::vector<OpId> branches;
  walk(k, k.body(), [&](OpId op) {
    // A producer may load data that an earlier kernel writes.
    if (k[op].opcode == Opcode::GridDependencyWait) need(op);
    if (k[op].opcode == Opcode::FetchTile) {  // like an op in a branch of the producer thread
      producers_.insert(op);
      need(op);
    }
    if (k[op].opcode == Opcode::If && is_producer_condition(k, k[op].operands[0]))
      branches.push_back(op);
  });
  for (OpId branch : branches) {
    producers_.insert(branch);
    need(branch);
    for (RegionId r : k[branch].regions)
      walk(k, r, [&](OpId op) {
        producers_.insert(op);
        need(op);
      });
  }
}

/// Adds the op, its operands and enclosing ops. Carries and branch results are added one by one.
void ProducerSlice::need(OpId op) {
  if (!ops_.insert(op).second) return;
  const OpData& d = (*k_)[op];
  if (d.is(Opcode::For, Opcode::If, Opcode::While))
    for (Value v : deciding_values(*k_, op)) need(v);
  else if (!d.is(Opcode::Yield, Opcode::ReceiveTile))
    for (Value v : d.operands) need(v);
  if (const OpId owner = (*k_)[d.parent].owner) need(owner);
  if (d.is(Opcode::For, Opcode::If, Opcode::While))
    for (RegionId r : d.regions)
      if (const OpId yield = k_->terminator(r)) need(yield);
}

void ProducerSlice::need(Value v) {
  if (!values_.insert(v).second) return;
  const ValueData& value = (*k_)[v];
  const OpId op = value.def ? value.def : value.region ? (*k_)[value.region].owner : OpId();
  if (!op) return;
  need(op);
  const OpData& d = (*k_)[op];
  if (d.opcode == Opcode::ReceiveTile)
    need(d.operands[2 + value.position]);  // the tile id that the producer thread holds
  const auto merge = merge_of(*k_, v);
  if (!merge) return;
  need(d.results[merge->index]);
  for (Value x : incoming_values(*k_, *merge)) need(x);
  if (is_loop(d))
    for (RegionId r : d.regions) need(loop_carries(*k_, r)[merge->index]);
}

bool ProducerSlice::is_legal() const {
  const auto is_plain = [&](OpId op) {
    const OpData& d = (*k_)[op];
    if (producers_.contains(op) ||
        d.is(Opcode::SmemAlloc, Opcode::GridDependencyWait, Opcode::For, Opcode::While, Opcode::If,
             Opcode::Yield, Opcode::ReceiveTile))
      return true;
    return (info(d.opcode).has(kPure) || is_invariant_scalar_load(*k_, op)) &&
           std::ranges::none_of(d.results, [&](Value v) { return k_->type(v).is_tile(); });
  };
  const auto is_scalar = [&](Value v) {
    return !k_->type(v).is_tile() && !k_->type(v).is(TypeKind::Pending);
  };
  return std::ranges::all_of(ops_, is_plain) && std::ranges::all_of(values_, is_scalar);
}

}  // namespace tegula::codegen
