#pragma once
// The expansion of one loop (expand_dot_graph.cpp): what it knows of the loop, of the step that it
// builds and of the wgmmas in flight. Its steps are written by expand_step.cpp.
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

/// Slots that dots read when those of a step stay in flight over its end: a slot that is filled
/// must be another one.
inline constexpr int kSlotsInUse = 2;

/// A dot that was issued.
struct Running {
  OpId dot;
  Value pending, fragments;  ///< fragments: A in registers, or none
  int stage = 0;
  bool is_of_last_step = false;
  bool is_continued = false;  ///< a later dot adds to its accumulator
};

/// Expands a loop of a graph of dots into wgmmas, rings, stored tiles and the waits between them.
class Expansion {
 public:
  /// `order` can be expanded (why_not_expandable). The loop's outer loops must have been found
  /// (MmaLoop::find_outer_loops).
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

  /// Gives whether all dots stay in flight over the end of a step.
  bool run(PassContext& context);

 private:
  bool has_accumulator(OpId dot) const {
    return std::ranges::find(accumulators_, dot, &PendingAccumulator::dot) != accumulators_.end();
  }

  /// Dots that read what is loaded in front of the loop, if none of them runs late: behind those of
  /// the last iteration it may be overwritten, long before the loop ends.
  std::unordered_set<OpId> readers_of_stationary() const;

  // ---- rings
  const OperandLoad* ring_load(Value tile) const { return graph_.ring_load(k_, tile); }
  /// Its slots are free one step later than their last reader was issued.
  bool is_late(const OperandPipeline& use) const { return stay_in_flight_ && !use.dots.empty(); }
  static RingPosition position(Builder& b, const OperandPipeline& use, int stage);

  // ---- rows that threads copy
  bool has_gathers() const { return !gathers_.loads().empty(); }
  /// Iterations that are copied ahead. Behind the barrier of a step, all warpgroups have retired
  /// the dots of the step before, or of the one before that if dots stay in flight.
  int gather_lead() const { return gathers_.slots() - (stay_in_flight_ ? kSlotsInUse : 1); }

  void begin_gathers(PassContext& context);

  /// The rows of the step have arrived, those of the slot to fill next have been read: it is filled
  /// in front of the step's dots, beside those of the step before.
  void meet_for_gathers(Builder& b);

  // ---- the loop
  void in_step();

  /// Waits for the last MMAs, and selects the result of an empty loop unless it `always` runs.
  void finish_accumulators(Builder& b, Value runs, bool always, std::vector<Value>& results);

  /// The first step and the last stage stand around the loop, in a branch unless there is an
  /// iteration for sure.
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
  /// The dot that alone runs late, on a ring of its own; or none.
  OpId only_late_dot() const;
  OperandPipeline* late_pipeline() const {
    for (OperandPipeline& use : l_.pipelines)
      if (use.first_stage > 0) return &use;
    return nullptr;
  }
  void read_late_from(std::span<const Value> state, RingPosition at);

  /// The first step of a tile, with stage 1 of the last iteration of the tile before.
  void step_beside_last_tile(Value first);

  /// Whether the accumulator begins with zeros and is at most scaled in an iteration: the first MMA
  /// need not read it.
  bool accumulator_starts_at_zero(OpId dot) const;

  /// Behind the tile loop, stage 1 of the last tile's last iteration and what follows from it.
  void leave_to_next_tile();

  /// The values behind the loop that positions of rings have, in the order in which a branch
  /// yields them.
  std::vector<Value*> ends() { return l_.is_nested() ? l_.ends() : std::vector<Value*>(); }

  OpId enter_branch();
  std::vector<Value> leave_branch(OpId branch, std::vector<Value> results);

  /// The loop of the steady state, in front of the anchor, from `first` on.
  void build_loop(Value first);
  /// Positions that the loop carries behind its values.
  std::vector<Value*> positions();
  void take(std::span<const Value> values) {
    std::size_t next = values_.carried().size();
    values_.take(values);
    for (Value* v : positions()) *v = values[next++];
  }

  // ---- a step
  Builder here() { return l_.before(anchor_); }

  /// The ops of these stages; `iteration` is that of stage 0.
  void step(int first, int last, Value iteration, bool is_steady);

  void place(const ScheduledOp& at);

  /// The first step is the first iteration, the loop has all others: what only the other choice
  /// needs goes.
  void choose(OpId select);

  /// Threads read a tile that TMA has loaded, all of it.
  void read(OpId load, int stage);

  /// The warps have waited for an iteration of a later stage in the step before.
  static void wait(Builder& b, OperandPipeline& use, int stage) {
    if (stage == use.first_stage && !std::exchange(use.is_waited_for, true))
      use.ring.wait(b, use.at);
  }

  void release_if_read(Builder& b, OperandPipeline& use);

  // ---- wgmmas
  void issue(const ScheduledOp& at);
  bool is_of_last_tile(int stage) const { return exists_ && stage > 0; }

  /// The warpgroup waits for its turn in front of the first op that it may run in its turn alone.
  void begin_turn(Builder& b, OpId op) const {
    if (is_whole_ && op == order_.turn.first) b.effect(Opcode::OrderWait, {});
  }
  void end_turn(OpId op) {
    if (!is_whole_ || op != order_.turn.last) return;
    Builder b = here();
    b.effect(Opcode::OrderArrive, {});
  }

  /// The shared tile of an operand; its slot is added to the op's operands.
  Value shared_operand(Builder& b, const DotOperand& operand, int stage,
                       std::vector<Value>& operands);

  /// Waits for the dot whose result this is, if the step has issued it and reads it.
  void need(Value v, int stage);
  /// The op of the loop that makes the value, in the iteration before for one that is carried.
  OpId made_by(Value v) const {
    const RegionId body = k_[old_].regions[0];
    if (k_[v].def || k_[v].region != body || k_[v].position == 0) return k_[v].def;
    return k_[loop_nexts(std::as_const(k_), old_)[k_[v].position - 1]].def;
  }

  /// Behind a step's dots, those of the step before are complete.
  void retire_last_step();

  /// All but the last `left` dots are complete behind this.
  void retire(std::size_t left);

  // ---- behind the loop
  void replace_results(std::span<const Value> results) {
    for (std::size_t i = 0; i < k_[old_].results.size(); ++i)
      k_.replace_all_uses(k_[old_].results[i], results[i]);
  }

  /// The old loop, and permutes and conversions of an operand in front of it.
  void erase_old();

  MmaLoop& l_;
  Kernel& k_;
  OpId old_;  ///< the loop as it was
  const Plan& plan_;
  DotGraph graph_;
  LoopOrder order_;
  StepValues values_;
  AsyncCopies gathers_;
  StoredTiles stored_;
  /// Choices that are known where the first iteration stands in front of the loop.
  std::unordered_set<OpId> choices_;
  std::unordered_map<OpId, OperandPipeline*> ring_of_;  ///< of each load of the loop
  OpId anchor_;                                         ///< ops go in front of it
  std::vector<PendingAccumulator> accumulators_;        ///< one for each dot, or none
  bool stay_in_flight_ = false;                         ///< all dots, over the end of a step
  std::vector<Running> running_;
  std::vector<std::pair<OpId, int>> read_;  ///< loads that threads have read in the step, by stage
  Value is_later_;                          ///< the step is not the first
  Value gather_slot_;                       ///< slot of the step's gathered rows
  std::vector<Value> unused_;               ///< what only choices not taken need
  /// Dots that read what is loaded once, if that is released behind them; those of the step that
  /// have still to retire.
  std::unordered_set<OpId> early_stationary_, stationary_left_;
  bool stationary_read_ = false;          ///< they have just retired
  std::optional<EpilogueOverlap> tiles_;  ///< where the next tile runs beside the end of one
  Value exists_;                          ///< in a step beside the tile before: there is one
  Value adds_;       ///< whether the late dot adds to its accumulator; none: it always does
  Value late_sum_;   ///< of the tile before
  Value iteration_;  ///< of stage 0 of the step
  bool is_first_ = false, is_whole_ = false;  ///< the step is the first one, has all stages
  bool is_very_last_ = false;                 ///< the step stands behind all tiles
};

}  // namespace tegula::ir
