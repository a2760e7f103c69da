#pragma once
// A mainloop whose MMAs become wgmmas on rings filled by TMA: shared by the expansion of any graph
// of dots (dot_graph/expand_dot_graph.cpp) and skew_back_to_back_mma.cpp. Ring positions are
// carried through the outer loops.
#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/passes/mma_loop/channel_ring.h"

namespace tegula::ir {

struct DotGraph;

/// The loads of a ring, which the loop reads `lag` iterations late.
struct RingLoads {
  std::vector<OperandLoad> loads;
  int lag = 0;
};

/// A ring of operands and the loop's position in it.
struct OperandPipeline {
  ChannelRing ring;
  int lag = 0;           ///< iteration i of the loop reads the load of iteration i - lag
  RingPosition begin{};  ///< position of the first iteration
  RingPosition end{};    ///< position after the last iteration
};

class MmaLoop {
 public:
  MmaLoop(Kernel& kernel, OpId loop, const Plan& plan, PassContext& context)
      : k(kernel),
        loop(loop),
        body(kernel[loop].regions[0]),
        plan_(plan),
        context_(context),
        source_body_(body) {}

  /// Finds MMAs and loads; false, with a remark, if they cannot all be wgmma and TMA.
  bool analyze();
  /// The dots that analyze has found as a graph. All that TMA loads in an iteration, auxiliary
  /// loads too, shares a ring: GEMMs wait once for all of it.
  DotGraph take_graph();
  /// Allocates shared memory and channels in front of all loops, and the positions that these
  /// carry: the loop's rings, and the operands that are loaded in front of the loop.
  void allocate(std::vector<RingLoads> rings, std::vector<OperandLoad> stationary);
  /// The same for the loads that analyze has found: those of each dot get a ring of their own, the
  /// second one an iteration behind.
  void allocate_skewed();
  /// This loop is built in the place of the one that was there, whose body still says what to load.
  void build(OpId new_loop) {
    loop = new_loop;
    body = k[new_loop].regions[0];
  }
  /// False if the loop stands in anything but counted loops and the loop over tiles.
  bool find_outer_loops();
  /// Reads auxiliary loads from their ring: a carry of the loop's own, before all others that are
  /// added to it.
  void read_aux();
  /// Issues the auxiliary loads of the next iteration into the slot that the previous one has read.
  void fill_aux(Builder& b);
  /// Takes the end position of the auxiliary ring from results of this op that start with the
  /// loop's.
  void end_aux(OpId op);
  /// Issues the loads of the prologue, for a loop that starts with iteration `first`.
  void fill_prologue(int first);
  /// Issues the next load that is not in flight into the slot that the previous iteration has read.
  void prefetch_next(Builder& b, const OperandPipeline& pipeline, RingPosition at);
  /// Carries the pipelines' `end` through the outer loops and erases the loads.
  void finish();

  // ---- building
  Builder before(OpId op);
  /// In front of the loop and all loops around it.
  Builder before_all() { return before(is_nested() ? outer_.front() : loop); }
  Value add_carry(OpId to, Value init);
  RingPosition add_carry(RingPosition init) {
    return {add_carry(loop, init.slot), add_carry(loop, init.phase)};
  }
  /// Makes the position after `at` that of the loop's next iteration.
  void advance(const OperandPipeline& pipeline, RingPosition at);
  void wait_stationary(Builder& b);
  /// Releases stationary operands if the condition holds: the next iteration of the outer loop may
  /// overwrite them.
  void release_stationary(Builder& b, Value condition);
  /// Position that the next outer iteration waits for, if this one has loaded stationary operands.
  RingPosition next_stationary(Builder& b, Value brought) const;
  /// Values of a position that loops carry.
  template <class Position>
  auto stationary_carries(Position& at) const {
    return stationary_->slots() == 1 ? std::vector{&at.phase} : std::vector{&at.slot, &at.phase};
  }
  /// Position of the pipeline after all iterations, counted, not followed: a warpgroup that skips
  /// the loop needs it.
  RingPosition end_position(Builder& b, const OperandPipeline& pipeline) const;
  bool is_skipped_by_other_warpgroup() const { return plan_.pingpong && is_nested(); }
  /// Later code may use the rings' memory, unless a further iteration fills them.
  void sync_before_reuse(Builder& b);
  /// Issues the MMA, on `a` and on the slot `at` of its pipeline.
  Value issue(Builder& b, OpId dot, Value acc, Value a, Value scale_d, RingPosition at);
  /// Waits for all accumulators in flight and the operands `a` in registers; leaves `count` MMAs
  /// running.
  static std::vector<Value> wait(Builder& b, std::vector<Value> pending,
                                 std::span<const Type> types, int count, std::vector<Value> a = {});
  static Value wait(Builder& b, Value pending, Type type, int count, Value a = {});
  /// Issues the MMA and waits for it; returns the accumulator.
  Value complete(Builder& b, OpId dot, Value acc, Value a, RingPosition at);

  // ---- asking
  const OperandLoad* load_of(Value operand) const;
  bool is_load(OpId op) const;
  int uses(Value v) const;
  /// Ops of the body that depend on the value, by operands, by nested ops or through others.
  std::unordered_set<OpId> dependents(Value on) const;
  bool is_nested() const { return !outer_.empty(); }
  bool uses_warp_scheduler_barrier() const { return plan_.warp_scheduler_barrier; }
  bool overlaps_tiles() const { return plan_.overlap_epilogue; }
  /// The loop over a CTA's tiles, if this loop stands in it directly.
  OpId tile_loop() const {
    return k.info.persistent && outer_.size() == 1 ? outer_.front() : OpId();
  }
  bool has_stationary() const { return stationary_.has_value(); }
  /// The ring that this load in front of the loop fills; none if it fills none.
  Value stationary_ring(OpId load) const;

  Kernel& k;
  OpId loop;
  RegionId body;
  std::vector<OpId> dots;
  std::vector<OperandPipeline> pipelines;
  RingPosition stationary_position, stationary_end;

 private:
  void allocate_rings();
  /// The region that a loop repeats: the last one.
  RegionId body_of(OpId outer) const { return k[outer].regions.back(); }
  bool is_tma(const OperandLoad& load) const;
  bool is_legal(OpId dot) const;
  bool is_tma_operand(Value a) const;
  /// In a kernel of clusters: marks loads that may be the same for both CTAs, if these run in
  /// lockstep. Returns an i1 that says whether the peer CTA has a tile, too; else none.
  Value multicast_loads(std::vector<RingLoads>& rings);
  void remark();
  /// The pipelines of operands, and the one of auxiliary loads.
  std::vector<OperandPipeline*> all_pipelines();
  /// The op of the body that uses the value first, itself or in a nested op.
  OpId first_user(Value v) const;
  void enter_outer_loops();
  void leave_outer_loops();
  void fill_iteration(Builder& b, const OperandPipeline& pipeline, Value iv, Value slot, Value free,
                      bool with_stationary);

  const Plan& plan_;
  PassContext& context_;
  RegionId source_body_;                   ///< with the loads' offsets
  std::vector<OpId> outer_;                ///< loops around this one, outermost first
  std::vector<OperandLoad> loads_;         ///< until they are in pipelines
  std::optional<ChannelRing> stationary_;  ///< operands loaded before the first iteration
  std::optional<OperandPipeline> aux_;     ///< auxiliary loads
  RingPosition aux_position_;              ///< position of the loop's iteration
  std::size_t aux_carry_ = 0;              ///< its number among the loop's carries
  Value producer_thread_;
};

/// Index among the carries of the accumulator of GEMM1, which is computed from GEMM0 and can be
/// skewed: it runs one iteration late, next to GEMM0 of the next iteration. None if the loop has no
/// such pair.
std::optional<std::size_t> skewed_accumulator(const MmaLoop& loop);
class EpilogueOverlap;
/// Skews GEMM1. With `tiles`, which have been entered, the last GEMM1 of a tile runs next to the
/// first GEMM0 of the next one.
void skew_back_to_back_mma(MmaLoop& loop, std::size_t sum, EpilogueOverlap* tiles);

}  // namespace tegula::ir
