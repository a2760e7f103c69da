#pragma once
// A mainloop whose MMAs become wgmmas on rings filled by TMA, for the expansion of its dot graph
// (dot_graph/expand_dot_graph.cpp). The outer loops carry the ring positions.
#include <optional>
#include <vector>

#include "ir/analysis/loop_end.h"
#include "ir/passes/mma_loop/channel_ring.h"

namespace tegula::ir {

/// A ring of operands, its readers, and the loop's position in it.
struct OperandPipeline {
  std::vector<OperandLoad> ring_loads;  ///< loads of the ring, until it is allocated
  ChannelRing ring{0, {}};
  /// Stages of the readers: step i of the loop reads the loads of iterations i - last_stage .. i -
  /// first_stage.
  int first_stage = 0, last_stage = 0;
  bool has_threads = false;  ///< threads read it, too
  /// Readers of the last stage: dots, and loads that threads read. A slot is free when they have
  /// retired, which for dots that stay in flight is in the next step.
  std::unordered_set<OpId> dots, loads;
  RingPosition begin{};  ///< position of the first iteration
  RingPosition end{};    ///< position after the last iteration
  // State of the step that is being built.
  std::unordered_set<OpId> remaining_readers;  ///< readers that have not retired yet
  bool is_waited_for = false, is_released = false;
  RingPosition position{};  ///< of the iteration of first_stage

  /// Returns the values of a position that loops carry: slot and phase, or only the phase if there
  /// is one slot.
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

  /// Allocates shared memory and channels before all loops, and makes these carry the ring
  /// positions. `rings` are filled in the loop; the loads of `stationary_loads` run before it.
  void allocate(std::vector<OperandPipeline> rings, std::vector<OperandLoad> stationary_loads);
  /// Replaces the loop by `new_loop`. The body of the original loop still provides the offsets of
  /// loads.
  void build(OpId new_loop) {
    loop = new_loop;
    body = k[new_loop].regions[0];
  }
  /// Finds the enclosing loops. Returns false if anything but counted loops and the loop over tiles
  /// encloses the loop.
  bool find_outer_loops();
  /// Issues the loads of the prologue, for a loop that starts with iteration `first`.
  void fill_prologue(int first);
  /// Issues the next load that is not in flight into the slot that the previous iteration has read.
  void prefetch_next(Builder& b, const OperandPipeline& pipeline, RingPosition position);
  /// Carries the pipelines' `end` through the outer loops and erases the loads.
  void finish();

  // ---- building
  Builder before(OpId op);
  /// Returns a builder before the loop and all loops around it.
  Builder before_all() { return before(is_nested() ? outer_.front() : loop); }
  void wait_stationary(Builder& b);
  /// Releases stationary operands if the condition holds: the next iteration of the outer loop may
  /// overwrite them.
  void release_stationary(Builder& b, Value condition);
  /// Computes the position that the next outer iteration waits for. `is_loaded` is true if this
  /// outer iteration loads stationary operands.
  void end_stationary(Builder& b, Value is_loaded);
  /// Returns the position of the pipeline after all iterations, computed from the trip count, for
  /// warpgroups that skip the loop.
  RingPosition end_position(Builder& b, const OperandPipeline& pipeline) const;
  /// Returns the second index of the loop, computed before the loop.
  Value second_index(Builder& b) const;
  /// Returns an i1 that is true if `index` is the last one of the loop, which is `over` at present.
  Value is_last_index(Builder& b, OpId over, Value index) const;
  bool is_skipped_by_other_warpgroup() const { return plan_.pingpong && is_nested(); }
  /// Waits for all accumulators in flight and the register operands `a`, and leaves `count` MMAs in
  /// flight. Returns the results of the wait.
  static std::vector<Value> wait(Builder& b, std::vector<Value> pending,
                                 std::span<const Type> types, int count, std::vector<Value> a = {});

  // ---- queries
  bool is_nested() const { return !outer_.empty(); }
  /// Returns the loop over a CTA's tiles if this loop is directly inside it, else a null op.
  OpId tile_loop() const {
    return k.info.persistent && outer_.size() == 1 ? outer_.front() : OpId();
  }
  /// Returns the ring that a load in or before the loop fills, or null.
  Value ring_of(OpId load);
  /// Returns the pipelines, then that of the stationary operands.
  std::vector<OperandPipeline*> all();
  /// Returns the positions after the loop, as the outer loops carry them.
  std::vector<Value*> ends();

  Kernel& k;
  OpId loop;
  RegionId body;
  std::vector<OperandPipeline> pipelines;
  std::optional<OperandPipeline> stationary;  ///< operands loaded before the first iteration

 private:
  /// Exceeds the number of slots that fit in shared memory.
  static constexpr std::int64_t kMaxSlots = 64;

  void allocate_rings();
  /// Returns the region that a loop repeats, which is its last one.
  RegionId body_of(OpId outer) const { return k[outer].regions.back(); }
  /// In a kernel with clusters whose CTAs run in lockstep, marks the loads that may be the same for
  /// both CTAs. Returns an i1 that is true if the peer CTA has a tile, too, or null if nothing is
  /// multicast.
  Value multicast_loads();
  void remark();
  void enter_outer_loops();
  void leave_outer_loops();
  void fill_iteration(Builder& b, const OperandPipeline* pipeline, Value iv, Value slot, Value free,
                      bool with_stationary);

  const Plan& plan_;
  PassContext& context_;
  RegionId source_body_;     ///< original body, with the offsets of loads
  bool may_pass_;            ///< the index of a load ahead may overflow
  std::vector<OpId> outer_;  ///< enclosing loops, outermost first
  Value producer_thread_;
};

}  // namespace tegula::ir
