#include "codegen/lower/copy_slice.h"

#include <algorithm>

#include "ir/analysis/constant_read.h"
#include "ir/analysis/leader.h"
#include "ir/op.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Some, and each made ready before all else.
bool are_channels_first(const Kernel& k) {
  int all = 0, first = 0;
  walk(k, k.body(), [&](OpId op) { all += k[op].opcode == Opcode::ChannelInit ? 1 : 0; });
  for (OpId op : k.ops(k.body())) first += k[op].opcode == Opcode::ChannelInit ? 1 : 0;
  return all > 0 && all == first;
}

}  // namespace

std::optional<CopySlice> CopySlice::of(const Kernel& machine) {
  if (!are_channels_first(machine)) return std::nullopt;
  CopySlice slice(machine);
  slice.find_leaders();
  if (slice.leaders_.empty() || !slice.is_legal()) return std::nullopt;
  return slice;
}

std::optional<CopySlice> CopySlice::of_carries(const Kernel& machine, OpId loop) {
  CopySlice slice(machine);
  for (Value v : machine[loop].results) slice.need(v);
  if (!slice.is_legal()) return std::nullopt;
  return slice;
}

void CopySlice::find_leaders() {
  const Kernel& k = *k_;
  std::vector<OpId> branches;
  walk(k, k.body(), [&](OpId op) {
    // What it copies may be what an earlier kernel writes.
    if (k[op].opcode == Opcode::GridWait) need(op);
    if (k[op].opcode == Opcode::FetchTile) {  // like what is in a branch of the leader
      leaders_.insert(op);
      need(op);
    }
    if (k[op].opcode == Opcode::If && is_leader_condition(k, k[op].operands[0]))
      branches.push_back(op);
  });
  for (OpId branch : branches) {
    leaders_.insert(branch);
    need(branch);
    for (RegionId r : k[branch].regions)
      walk(k, r, [&](OpId op) {
        leaders_.insert(op);
        need(op);
      });
  }
}

/// The op, its operands and what encloses it. Carries and branch results are needed one by one.
void CopySlice::need(OpId op) {
  if (!ops_.insert(op).second) return;
  const OpData& d = (*k_)[op];
  if (d.opcode == Opcode::For)
    for (std::size_t i = 0; i < 3; ++i) need(d.operands[i]);
  else if (d.opcode == Opcode::If)
    need(d.operands[0]);
  else if (d.opcode != Opcode::Yield && d.opcode != Opcode::While && d.opcode != Opcode::TakeTile)
    for (Value v : d.operands) need(v);
  if (const OpId owner = (*k_)[d.parent].owner) need(owner);
  if (d.opcode == Opcode::For || d.opcode == Opcode::If || d.opcode == Opcode::While)
    for (RegionId r : d.regions)
      if (const OpId yield = k_->terminator(r)) need(yield);
  if (d.opcode == Opcode::While)  // it ends by its condition
    need((*k_)[k_->terminator(d.regions[0])].operands[0]);
}

void CopySlice::need(Value v) {
  if (!values_.insert(v).second) return;
  if ((*k_)[v].def)
    need_result(v);
  else if ((*k_)[v].region && (*k_)[(*k_)[v].region].owner)
    need_argument(v);
}

void CopySlice::need_result(Value v) {
  const OpId def = (*k_)[v].def;
  const std::size_t i = (*k_)[v].position;
  need(def);
  const OpData& d = (*k_)[def];
  if (d.opcode == Opcode::TakeTile) need(d.operands[2 + i]);  // the number that the leader has
  for (RegionId r : d.regions) {
    if (d.opcode == Opcode::For) need((*k_)[r].args[i + 1]);
    if (d.opcode == Opcode::While) need((*k_)[r].args[i]);
    if (d.opcode == Opcode::While && r == d.regions[0]) continue;  // yields its condition
    if (const OpId yield = k_->terminator(r); yield && i < (*k_)[yield].operands.size())
      need((*k_)[yield].operands[i]);
  }
}

void CopySlice::need_argument(Value v) {
  const RegionId region = (*k_)[v].region;
  const OpId owner = (*k_)[region].owner;
  const std::size_t position = (*k_)[v].position;
  need(owner);
  const bool counts = (*k_)[owner].opcode == Opcode::For;
  if ((!counts && (*k_)[owner].opcode != Opcode::While) || (counts && position == 0)) return;
  need((*k_)[owner].operands[counts ? 2 + position : position]);
  need((*k_)[owner].results[counts ? position - 1 : position]);
}

bool CopySlice::is_legal() const {
  const auto is_plain = [&](OpId op) {
    const OpData& d = (*k_)[op];
    if (leaders_.contains(op) || d.opcode == Opcode::SmemAlloc || d.opcode == Opcode::GridWait ||
        d.opcode == Opcode::For || d.opcode == Opcode::While || d.opcode == Opcode::If ||
        d.opcode == Opcode::Yield || d.opcode == Opcode::TakeTile)
      return true;
    return (info(d.opcode).has(kPure) || is_constant_read(*k_, op)) &&
           std::ranges::none_of(d.results, [&](Value v) { return k_->type(v).is_tile(); });
  };
  const auto is_scalar = [&](Value v) {
    return !k_->type(v).is_tile() && !k_->type(v).is(TypeKind::Pending);
  };
  return std::ranges::all_of(ops_, is_plain) && std::ranges::all_of(values_, is_scalar);
}

}  // namespace tegula::codegen
