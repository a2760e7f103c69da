// Ping-pong: two warpgroups take the tiles of a CTA alternately. Each runs the code of the tiles
// assigned to it; for the other's tiles it only advances the scalar loop carries (ring positions).
// The warpgroup's number is a run-time value, so the code exists once.
#include <bit>

#include "codegen/lower/lowering.h"
#include "ir/analysis/pingpong_loop.h"
#include "tegula/int_math.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Named barriers: Lowering::barrier uses 0 and 1 without ping-pong, and the order of warpgroups
/// uses the next two.
constexpr int kFirstOrderBarrier = 2, kFirstGroup = kFirstOrderBarrier + 2;
constexpr int kTwoWarpgroups = 2 * kWarpgroupThreads;
constexpr std::int64_t kScratchAlignment = 1024;

}  // namespace

void Lowering::find_groups() {
  if (!context.plan || !context.plan->pingpong) return;
  if (const OpId tiles = pingpong_loop(from); tiles && producer_slice_)
    carry_slice_ = ProducerSlice::carry_slice(from, tiles);
  if (carry_slice_) {
    groups_ = context.plan->groups();
    return;
  }
  // The machine form is also correct for a single group.
  context.remark(Remark::Kind::Missed, {}, "no ping-pong: copies depend on tiles in registers");
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

bool Lowering::is_pingpong(OpId loop) const {
  return groups_ > 1 && role_ == Role::Consumer && from[loop].attrs.i(AttrName::pingpong) == 1;
}

void Lowering::warpgroup_barrier() {
  b.effect(Opcode::BarSync, {b.add(group(), b.i32(kFirstGroup))},
           {{AttrName::count, from.info.threads}});
}

/// Returns the address of this group's scratch memory. Each group gets the size that the largest op
/// needs, which is known only at the end: set_group_scratch_stride() sets the stride.
Value Lowering::group_scratch(std::int64_t bytes) {
  group_scratch_bytes_ = std::max(group_scratch_bytes_, round_up(bytes, kScratchAlignment));
  const std::int64_t first = round_up(scratch_offset_, kScratchAlignment);
  scratch_end_ = std::max(scratch_end_, first + groups_ * group_scratch_bytes_);
  const Value stride = b.i32(group_scratch_bytes_);
  scratch_strides_.push_back(to[stride].def);
  return b.add(shared_address(first), b.mul(group(), stride));
}

void Lowering::set_group_scratch_stride() {
  for (OpId stride : scratch_strides_) to[stride].attrs.set(AttrName::value, group_scratch_bytes_);
}

// ---- order of warpgroups: one named barrier each, at which a warpgroup waits for the previous one
// (FlashAttention-3, section 3.1; PTX ISA, "bar": an arriving thread does not wait)
namespace {

/// Returns the number of ping-pong groups, each with its own tile, or of warpgroups that share one
/// tile.
int order_participants(const Lowering& l) {
  return l.groups() > 1 ? l.groups() : l.warps() / kWarpgroupWarps;
}
Value order_index(Lowering& l) {
  return l.groups() > 1 ? l.group() : l.b.op(Opcode::Shr, {l.coordinate(HwDim::Warp), l.b.i32(2)});
}

void order_barrier(Lowering& l, Opcode opcode, Value index) {
  l.b.effect(opcode, {l.b.add(index, l.b.i32(kFirstOrderBarrier))},
             {{AttrName::count, kTwoWarpgroups}});
}

/// Emits `opcode` on the barrier in one warpgroup only.
void order_barrier_by(Lowering& l, Value number, Opcode opcode, Value index) {
  l.when(l.b.cmp("eq", order_index(l), number), [&] { order_barrier(l, opcode, index); });
}

}  // namespace

void lower_OrderInit(Lowering& l, OpId) {
  order_barrier_by(l, l.b.i32(order_participants(l) - 1), Opcode::BarArrive, l.b.i32(0));
}
void lower_OrderDrain(Lowering& l, OpId) {
  order_barrier_by(l, l.b.i32(0), Opcode::BarSync, l.b.i32(0));
}
/// Emits nothing for a single warpgroup, which never waits.
void lower_OrderWait(Lowering& l, OpId) {
  if (order_participants(l) > 1) order_barrier(l, Opcode::BarSync, order_index(l));
}
void lower_OrderArrive(Lowering& l, OpId) {
  if (order_participants(l) == 1) return;
  const Value next = l.b.add(order_index(l), l.b.i32(1));
  const Value wraps = l.b.cmp("eq", next, l.b.i32(order_participants(l)));
  order_barrier(l, Opcode::BarArrive, l.b.select(wraps, l.b.i32(0), next));
}

// ---- tiles
/// Lowers an iteration of the tile loop to a branch: a warpgroup computes its own tiles, and for
/// the others only computes the carries of the next iteration.
void Lowering::lower_own_tile(OpId tiles, Value number) {
  const RegionId body = from[tiles].regions[0];
  const Value is_own = b.cmp("eq", b.op(Opcode::And, {number, b.i32(groups_ - 1)}), group());
  std::vector<Type> types;
  for (std::size_t i : kept(from[tiles].results))
    types.push_back(from.type(from[tiles].results[i]));
  const auto skip = [&] {
    role_ = Role::Skip;
    lower_region(body);
    role_ = Role::Consumer;
  };
  const auto& next = to[branch(is_own, types, [&] { lower_region(body); }, skip)].results;
  b.yield(std::vector<Value>(next.begin(), next.end()));
}

void Lowering::lower_pingpong(OpId tiles) {
  lower_OrderInit(*this, {});
  const Value end = get(from[tiles].operands[1]);
  lower_for(tiles);
  // The warpgroup that is next in the order consumes the last arrival, so that none stays pending.
  const Value next = b.op(Opcode::And, {end, b.i32(groups_ - 1)});
  order_barrier_by(*this, next, Opcode::BarSync, next);
}

}  // namespace tegula::codegen
