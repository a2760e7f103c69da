// Turns of warpgroups, and groups: warpgroups that take a program's tiles in turn (plan.alternate).
// The machine form says what a program does in order, tile after tile, and each group runs all of
// it that is its own; of another's tile it runs what the loop over tiles carries on, scalars only.
// Which group the code runs in is a number known at run time, so that it is there once.
#include <bit>

#include "codegen/lower/lowering.h"
#include "ir/analysis/alternating.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Named barriers: 0 and 1 are Lowering::barrier's where there are no groups, turns have the next.
constexpr int kFirstTurn = 2, kFirstGroup = kFirstTurn + 2;
constexpr int kTwoWarpgroups = 2 * kWarpgroupThreads;
constexpr std::int64_t kScratchAlignment = 1024;

}  // namespace

void Lowering::find_groups() {
  if (!context.plan || !context.plan->alternate) return;
  if (const OpId tiles = alternating_loop(from); tiles && copying_)
    skipping_ = CopySlice::of_carries(from, tiles);
  if (skipping_) {
    groups_ = context.plan->groups();
    return;
  }
  // Machine form is right for one group alone, too.
  context.remark(Remark::Kind::Missed, {},
                 "tiles do not alternate: what is copied, or where, depends on tiles in registers");
}

Value Lowering::group() {
  if (group_) return group_;
  Builder head(to);
  if (const OpId first = to[to.body()].first) head.before(first);
  const Value warp = head.op(Opcode::WarpId, std::initializer_list<Value>{});
  const int shift = std::countr_zero(static_cast<unsigned>(warps()));
  return group_ = head.op(Opcode::Shr, {warp, head.i32(shift)});
}

Value Lowering::is_first_thread() {
  const auto thread = [&] { return b.op(Opcode::Tid, std::initializer_list<Value>{}); };
  if (groups_ == 1) return b.cmp("eq", thread(), b.i32(0));
  const Value of_group = b.op(Opcode::And, {thread(), b.i32(from.info.threads - 1)});
  return b.cmp("eq", of_group, b.i32(0));
}

bool Lowering::is_alternating(OpId loop) const {
  return groups_ > 1 && role_ == Role::Compute && from[loop].attrs.i(AttrName::alternate) == 1;
}

void Lowering::meet_group() {
  b.effect(Opcode::BarSync, {b.add(group(), b.i32(kFirstGroup))},
           {{AttrName::count, from.info.threads}});
}

/// As much for each group as the one op that needs the most, which is known at the end.
Value Lowering::group_scratch(std::int64_t bytes) {
  group_scratch_bytes_ = std::max(group_scratch_bytes_, (bytes + kScratchAlignment - 1) /
                                                            kScratchAlignment * kScratchAlignment);
  const std::int64_t first =
      (scratch_offset_ + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  scratch_end_ = std::max(scratch_end_, first + groups_ * group_scratch_bytes_);
  const Value stride = b.i32(group_scratch_bytes_);
  scratch_strides_.push_back(to[stride].def);
  return b.add(shared_address(first), b.mul(group(), stride));
}

void Lowering::settle_group_scratch() {
  for (OpId stride : scratch_strides_) to[stride].attrs.set(AttrName::value, group_scratch_bytes_);
}

// ---- turns of warpgroups: a named barrier each, at which it meets the one before it
// (FlashAttention-3, section 3.1; PTX ISA, "bar": who arrives does not wait)
namespace {

/// Groups that have a tile each, or the warpgroups that have one together.
int takers(const Lowering& l) { return l.groups() > 1 ? l.groups() : l.warps() / kWarpgroupWarps; }
Value taker(Lowering& l) {
  return l.groups() > 1 ? l.group() : l.b.op(Opcode::Shr, {l.coordinate(In::Warp), l.b.i32(2)});
}

void meet(Lowering& l, Opcode opcode, Value turn) {
  l.b.effect(opcode, {l.b.add(turn, l.b.i32(kFirstTurn))}, {{AttrName::count, kTwoWarpgroups}});
}

/// One warpgroup alone does this to a barrier.
void meet_alone(Lowering& l, Value who, Opcode opcode, Value turn) {
  const RegionId outer = l.b.region();
  const Value is_it = l.b.cmp("eq", taker(l), who);
  l.b.at_end(l.to[l.b.make_if(is_it, {})].regions[0]);
  meet(l, opcode, turn);
  l.b.at_end(outer);
}

}  // namespace

void lower_TurnsStart(Lowering& l, OpId) {
  meet_alone(l, l.b.i32(takers(l) - 1), Opcode::BarArrive, l.b.i32(0));
}
void lower_TurnsEnd(Lowering& l, OpId) { meet_alone(l, l.b.i32(0), Opcode::BarSync, l.b.i32(0)); }
// One alone always has the turn.
void lower_TurnTake(Lowering& l, OpId) {
  if (takers(l) > 1) meet(l, Opcode::BarSync, taker(l));
}
void lower_TurnPass(Lowering& l, OpId) {
  if (takers(l) == 1) return;
  const Value next = l.b.add(taker(l), l.b.i32(1));
  const Value wraps = l.b.cmp("eq", next, l.b.i32(takers(l)));
  meet(l, Opcode::BarArrive, l.b.select(wraps, l.b.i32(0), next));
}

// ---- tiles
/// The tile at hand is this group's, or the branch gives what the next one begins with.
void Lowering::lower_own_tile(OpId tiles, Value number) {
  const RegionId body = from[tiles].regions[0];
  const Value mine = b.cmp("eq", b.op(Opcode::And, {number, b.i32(groups_ - 1)}), group());
  std::vector<Type> types;
  for (std::size_t i : kept(from[tiles].results))
    types.push_back(from.type(from[tiles].results[i]));
  const OpId branch = b.make_if(mine, types);
  const RegionId outer = b.region();
  b.at_end(to[branch].regions[0]);
  lower_region(body);
  role_ = Role::Skip;
  b.at_end(to[branch].regions[1]);
  lower_region(body);
  role_ = Role::Compute;
  b.at_end(outer);
  const auto& next = to[branch].results;
  b.yield(std::vector<Value>(next.begin(), next.end()));
}

void Lowering::lower_alternating(OpId tiles) {
  lower_TurnsStart(*this, {});
  const Value end = get(from[tiles].operands[1]);
  lower_for(tiles);
  // The group whose turn it would be takes it, so that none is left over.
  const Value next = b.op(Opcode::And, {end, b.i32(groups_ - 1)});
  meet_alone(*this, next, Opcode::BarSync, next);
}

}  // namespace tegula::codegen
