#pragma once
// A mainloop whose MMAs become wgmmas on rings filled by TMA, for the expansion of its graph of
// dots (dot_graph/expand_dot_graph.cpp). Ring positions are carried through the outer loops.
#include <optional>
#include <vector>

#include "ir/analysis/loop_end.h"
#include "ir/passes/mma_loop/channel_ring.h"

namespace tegula::ir {

/// A ring of operands, its readers, and the loop's position in it.
struct OperandPipeline {
  std::vector<OperandLoad> brings;  ///< what the ring will have, until it is allocated
  ChannelRing ring{0, {}};
  /// Stages of its readers: iteration i of the loop reads loads from iteration i - last_stage on.
  int first_stage = 0, last_stage = 0;
  bool has_threads = false;  ///< threads read it, too
  /// Readers of the last stage: dots, and loads that threads read. A slot is free when they have
  /// retired: dots in flight, in the next step.
  std::unordered_set<OpId> dots, loads;
  RingPosition begin{};  ///< position of the first iteration
  RingPosition end{};    ///< position after the last iteration
  // The step that is built changes these.
  std::unordered_set<OpId> left;  ///< readers that it has still to see
  bool is_waited_for = false, is_released = false;
  RingPosition at{};  ///< of the iteration of first_stage

  /// The values of a position that loops carry: with one slot its phase alone.
  std::vector<Value*> carries(RingPosition& position) const {
    return ring.slots() == 1 ? std::vector{&position.phase}
                             : std::vector{&position.slot, &position.phase};
  }
};

class MmaLoop {
 public:
  MmaLoop(Kernel& kernel, OpId loop, const Plan& plan, PassContext& context)
      : k(kernel),
        loop(loop),
        body(kernel[loop].regions[0]),
        plan_(plan),
        context_(context),
        source_body_(body),
        may_pass_(may_pass_indices(Facts(kernel), kernel, loop, kMaxSlots)) {}

  /// Allocates shared memory and channels in front of all loops, and the positions that these
  /// carry: the loop's rings, and the operands that are loaded in front of the loop.
  void allocate(std::vector<OperandPipeline> rings, std::vector<OperandLoad> in_front);
  /// This loop is built in the place of the one that was there, whose body still says what to load.
  void build(OpId new_loop) {
    loop = new_loop;
    body = k[new_loop].regions[0];
  }
  /// False if the loop stands in anything but counted loops and the loop over tiles.
  bool find_outer_loops();
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
  void wait_stationary(Builder& b);
  /// Releases stationary operands if the condition holds: the next iteration of the outer loop may
  /// overwrite them.
  void release_stationary(Builder& b, Value condition);
  /// Finds the position that the next outer iteration waits for, if this one has loaded stationary
  /// operands.
  void end_stationary(Builder& b, Value brought);
  /// Position of the pipeline after all iterations, counted, not followed: a warpgroup that skips
  /// the loop needs it.
  RingPosition end_position(Builder& b, const OperandPipeline& pipeline) const;
  /// In front of the loop: the index behind its first one.
  Value second_index(Builder& b) const;
  /// Whether an index of the loop, in `over` as it is now, is its last one.
  Value is_last_index(Builder& b, OpId over, Value index) const;
  bool is_skipped_by_other_warpgroup() const { return plan_.pingpong && is_nested(); }
  /// Waits for all accumulators in flight and the operands `a` in registers; leaves `count` MMAs
  /// running.
  static std::vector<Value> wait(Builder& b, std::vector<Value> pending,
                                 std::span<const Type> types, int count, std::vector<Value> a = {});

  // ---- asking
  bool is_nested() const { return !outer_.empty(); }
  /// The loop over a CTA's tiles, if this loop stands in it directly.
  OpId tile_loop() const {
    return k.info.persistent && outer_.size() == 1 ? outer_.front() : OpId();
  }
  /// The ring that this load fills, of the loop or in front of it; none if it fills none.
  Value ring_of(OpId load);
  /// The pipelines, then that of operands that are loaded in front of the loop.
  std::vector<OperandPipeline*> all();
  /// The positions behind the loop, as outer loops carry them.
  std::vector<Value*> ends();

  Kernel& k;
  OpId loop;
  RegionId body;
  std::vector<OperandPipeline> pipelines;
  std::optional<OperandPipeline> stationary;  ///< operands loaded before the first iteration

 private:
  /// More than fit in shared memory.
  static constexpr std::int64_t kMaxSlots = 64;

  void allocate_rings();
  /// The region that a loop repeats: the last one.
  RegionId body_of(OpId outer) const { return k[outer].regions.back(); }
  /// In a kernel of clusters: marks loads that may be the same for both CTAs, if these run in
  /// lockstep. Returns an i1 that says whether the peer CTA has a tile, too; else none.
  Value multicast_loads();
  void remark();
  void enter_outer_loops();
  void leave_outer_loops();
  void fill_iteration(Builder& b, const OperandPipeline& pipeline, Value iv, Value slot, Value free,
                      bool with_stationary);

  const Plan& plan_;
  PassContext& context_;
  RegionId source_body_;     ///< with the loads' offsets
  bool may_pass_;            ///< loads ahead may be of what lies beyond indices
  std::vector<OpId> outer_;  ///< loops around this one, outermost first
  Value producer_thread_;
};

}  // namespace tegula::ir
