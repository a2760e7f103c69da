#pragma once
// The expansion of one loop (expand_dot_graph.cpp): its state for the loop, for the step that is
// being built and for the wgmmas in flight. The steps are built by expand_step.cpp.
#include <algorithm>
#include <optional>
#include <ranges>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/loop.h"
#include "ir/passes/dot_graph/epilogue_overlap.h"
#include "ir/passes/dot_graph/ring_use.h"
#include "ir/passes/dot_graph/step_values.h"
#include "ir/passes/dot_graph/stored_tiles.h"
#include "ir/passes/mma_loop/async_copies.h"

namespace tegula::ir {

/// Number of slots that dots read if the dots of a step stay in flight past its end. A slot that is
/// being filled must be another one.
inline constexpr int kSlotsInUse = 2;

/// A dot that was issued.
struct Running {
  OpId dot;
  Value pending, fragments;  ///< fragments: A in registers, or none
  int stage = 0;
  bool is_of_last_step = false;
  bool is_continued = false;  ///< a later dot adds to its accumulator
};

/// Expands a loop with a dot graph into wgmmas, rings, stored tiles and the waits between them.
class Expansion {
 public:
  /// `order` must be expandable (why_not_expandable), and the loop's outer loops must have been
  /// found (MmaLoop::find_outer_loops).
  Expansion(MmaLoop& l, DotGraph graph, LoopOrder order, const Plan& plan)
      : l_(l),
        k_(l.k),
        old_(l.loop),
        plan_(plan),
        graph_(std::move(graph)),
        order_(std::move(order)),
        values_(k_, old_, graph_, order_),
        gathers_(k_, old_, std::max(graph_.gather_slots(k_, plan), kSlotsInUse), graph_.gathers),
        stored_(k_, graph_),
        anchor_(l.loop) {}

  /// Expands the loop. Returns the dots that stay in flight past the end of a step.
  std::unordered_set<OpId> run(PassContext& context);

 private:
  bool has_accumulator(OpId dot) const {
    return std::ranges::find(accumulators_, dot, &PendingAccumulator::dot) != accumulators_.end();
  }

  /// Returns true if the dot stays in flight past the end of a step.
  bool is_lasting(OpId dot) const { return lasting_ > 0 && has_accumulator(dot); }

  /// Returns the dots that read operands loaded before the loop, or nothing if one of them runs
  /// late. After those of the last iteration, the operands may be overwritten, long before the loop
  /// ends.
  std::unordered_set<OpId> readers_of_stationary() const;

  // ---- rings
  const OperandLoad* ring_load(Value tile) const { return graph_.ring_load(k_, tile); }
  /// Returns true if the slots are free only one step after their last reader was issued.
  bool is_late(const OperandPipeline& use) const {
    return std::ranges::any_of(use.dots, [&](OpId dot) { return is_lasting(dot); });
  }
  static RingPosition position(Builder& b, const OperandPipeline& use, int stage);

  // ---- rows that threads copy
  bool has_gathers() const { return !gathers_.loads().empty(); }
  /// Returns the number of iterations that are copied ahead. After the barrier of a step, all
  /// warpgroups have retired the dots of the previous step, or of the one before it if dots stay in
  /// flight.
  int gather_lead() const { return gathers_.slots() - (stay_in_flight_ ? kSlotsInUse : 1); }

  void begin_gathers(PassContext& context);
  void place_invariants();

  /// Waits until the rows of the step have arrived and those in the slot to fill next have been
  /// read. The slot is filled before the dots of the step are issued, while those of the previous
  /// step run.
  void await_gathers(Builder& b);

  // ---- the loop
  void in_step();

  /// Waits for the last MMAs. Selects the initial values if the loop is empty, unless it `always`
  /// runs.
  void finish_accumulators(Builder& b, Value runs, bool always, std::vector<Value>& results);

  /// Builds the loop with its first step before it and the last stage after it, in a branch unless
  /// there is always an iteration.
  void skewed();
  void first_step(Value first) {
    step(0, 0, first, false);
    values_.end_step();
  }
  std::vector<Value> loop_results() const {
    std::vector<Value> results;
    for (std::size_t i = 0; i < k_[old_].results.size(); ++i) results.push_back(values_.result(i));
    return results;
  }

  // ---- overlapped tiles
  void begin_overlap();
  /// Returns the dot if it is the only op that runs late and has its own ring; else a null op.
  OpId only_late_dot() const;
  OperandPipeline* late_pipeline() const {
    for (OperandPipeline& use : l_.pipelines)
      if (use.first_stage > 0) return &use;
    return nullptr;
  }
  void read_late_from(std::span<const Value> state, RingPosition position);

  /// Builds the first step of a tile, together with stage 1 of the last iteration of the previous
  /// tile.
  void step_overlapping_last_tile(Value first);

  /// Returns true if the accumulator starts as zeros and is at most scaled in an iteration, so that
  /// the first MMA need not read it.
  bool accumulator_starts_at_zero(OpId dot) const;

  /// Builds stage 1 of the last tile's last iteration, and the ops that depend on it, after the
  /// tile loop.
  void leave_to_next_tile();

  /// Returns the ring positions after the loop, in the order in which a branch yields them.
  std::vector<Value*> ends() { return l_.is_nested() ? l_.ends() : std::vector<Value*>(); }

  OpId enter_branch();
  std::vector<Value> leave_branch(OpId branch, std::vector<Value> results);

  /// Builds the loop of the steady state before the anchor, starting at `first`.
  void build_loop(Value first);
  /// Returns the positions that the loop carries after its values.
  std::vector<Value*> positions();
  void take(std::span<const Value> values) {
    std::size_t next = values_.carried().size();
    values_.take(values);
    for (Value* v : positions()) *v = values[next++];
  }

  // ---- a step
  Builder here() { return l_.before(anchor_); }

  /// Builds the ops of stages `first` .. `last`; `iteration` is that of stage 0.
  void step(int first, int last, Value iteration, bool is_steady);

  void place(const ScheduledOp& scheduled);

  /// Replaces a select that chooses by the first iteration: the first step is the first iteration,
  /// the loop has all others. Values that only the other choice needs become unused.
  void choose(OpId select);

  /// Stores a tile that dots read from shared memory, if it is one, after the dots of the previous
  /// step have retired: they may read its slot, or, in another warpgroup, the one to be written
  /// next.
  void store(Value tile, Value made);

  /// Makes the threads read a whole tile that TMA has loaded.
  void read(OpId load, int stage);

  /// Waits for the ring once per step, in its first stage. For a later stage, the warps have waited
  /// in an earlier step.
  static void wait(Builder& b, OperandPipeline& use, int stage) {
    if (stage == use.first_stage && !std::exchange(use.is_waited_for, true))
      use.ring.wait(b, use.position);
  }

  void release_if_read(Builder& b, OperandPipeline& use);

  // ---- wgmmas
  void issue(const ScheduledOp& scheduled);
  /// Returns true if the dot adds to the sum of a dot in flight, which only it reads: wgmmas with
  /// the same accumulator need no wait between them.
  bool continues(OpId dot, int stage);
  bool is_of_last_tile(int stage) const { return exists_ && stage > 0; }

  /// Makes the warpgroup wait for the previous one before the first op of the ordered section.
  void begin_turn(Builder& b, OpId op) const {
    if (is_whole_ && op == order_.section.first) b.effect(Opcode::OrderWait, {});
  }
  void end_turn(OpId op) {
    if (!is_whole_ || op != order_.section.last) return;
    Builder b = here();
    b.effect(Opcode::OrderArrive, {});
  }

  /// Returns the shared-memory tile of an operand, and appends its slot to the op's operands.
  Value shared_operand(Builder& b, const DotOperand& operand, int stage,
                       std::vector<Value>& operands);

  /// Waits for the dot whose result this is, if this step has issued it.
  void need(Value v, int stage);
  /// Returns the op of the loop that makes the value; for a carry, in the previous iteration.
  OpId made_by(Value v) const {
    const RegionId body = k_[old_].regions[0];
    if (k_[v].def || k_[v].region != body || k_[v].position == 0) return k_[v].def;
    return k_[loop_nexts(std::as_const(k_), old_)[k_[v].position - 1]].def;
  }

  /// Retires the dots of the previous step if the dots of this step continue all of them.
  void retire_last_step();

  /// Waits until at most `in_flight` dots are in flight.
  void retire(std::size_t in_flight);

  // ---- after the loop
  void replace_results(std::span<const Value> results) {
    for (std::size_t i = 0; i < k_[old_].results.size(); ++i)
      k_.replace_all_uses(k_[old_].results[i], results[i]);
  }

  /// Erases the old loop, and permutes and conversions of operands before it.
  void erase_old();

  MmaLoop& l_;
  Kernel& k_;
  OpId old_;  ///< the original loop
  const Plan& plan_;
  DotGraph graph_;
  LoopOrder order_;
  StepValues values_;
  AsyncCopies gathers_;
  StoredTiles stored_;
  /// Selects whose choice is known if the first iteration is peeled.
  std::unordered_set<OpId> choices_;
  std::unordered_map<OpId, OperandPipeline*> ring_of_;  ///< of each load of the loop
  OpId anchor_;                                         ///< ops are inserted before it
  std::vector<PendingAccumulator> accumulators_;        ///< one for each dot, or none
  std::size_t lasting_ = 0;  ///< dots, the last ones of a step, that stay in flight past its end
  bool stay_in_flight_ = false;                ///< all dots do
  std::unordered_map<OpId, Value> last_sums_;  ///< retired sums of the previous step's lasting dots
  std::unordered_set<OpId> chained_;  ///< dots whose sum is only the accumulator of another one
  std::vector<Running> running_;
  std::vector<std::pair<OpId, int>> read_;  ///< loads that threads have read in the step, by stage
  Value is_later_;                          ///< the step is not the first
  Value gather_slot_;                       ///< slot of the step's gathered rows
  std::vector<Value> entries_;              ///< table entries of the rows to be copied next
  std::vector<Value> unused_;               ///< needed only by operands not chosen
  /// Dots that read stationary operands, if these are released after them; and those of the step
  /// that have not retired yet.
  std::unordered_set<OpId> early_stationary_, unread_stationary_;
  bool stationary_read_ = false;          ///< they have just retired
  std::optional<EpilogueOverlap> tiles_;  ///< if the next tile overlaps the end of one
  Value exists_;                          ///< in a step that ends the previous tile: there is one
  Value adds_;       ///< i1: the late dot adds to its accumulator; null: it always does
  Value late_sum_;   ///< of the previous tile
  Value iteration_;  ///< of stage 0 of the step
  bool is_first_ = false, is_whole_ = false;  ///< the step is the first one, has all stages
  bool is_very_last_ = false;                 ///< the step is after all tiles
};

}  // namespace tegula::ir
