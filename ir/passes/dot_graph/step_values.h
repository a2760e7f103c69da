#pragma once
// Values of a loop's steps: a step reads values that it has made itself or that an earlier step has
// made.
//
// In step t, an op of stage s runs for iteration t - s. A value of an op of stage u that it reads
// was made s - u steps before; a value that the loop carries, s + 1 - u steps before. The loop that
// is built carries such a value once per step of its age.
#include <unordered_map>
#include <vector>

#include "ir/clone_op.h"
#include "ir/loop.h"
#include "ir/passes/dot_graph/loop_order.h"

namespace tegula::ir {

class StepValues {
 public:
  StepValues(Kernel& k, OpId loop, const DotGraph& dots, const LoopOrder& order);

  /// Returns true if the value is made in the same step in which an op of this stage reads it.
  bool is_of_this_step(Value v, int stage) const;
  /// Returns the value that an op of this stage reads, in the step that is being built.
  Value read(Value v, int stage) const;
  void define(Value v, int stage, Value made) { made_[static_cast<std::size_t>(stage)][v] = made; }

  /// Starts a step; `iteration` is its induction variable.
  void begin_step(Value iteration);
  /// Ends a step: all values become one step older.
  void end_step();
  /// Return the initial values of the steady-state loop, and the values that its step yields.
  std::vector<Value> carried() const;
  std::vector<Value> next() const;
  /// Replaces the values by the carries or results of that loop, in the order of carried().
  void take(std::span<const Value> values);
  /// Returns result `index` of the loop after its last step, or after the late stages of the last
  /// step.
  Value result(std::size_t index) const;
  /// Sets the initial value of `key` in the steady-state loop, for all ages.
  void begin_with(Value key, Value init);
  /// Makes the late stages read the final values of another loop, in the order of carried().
  void read_late_from(std::span<const Value> values);
  /// Returns the types of the values in carried().
  std::vector<Type> carried_types() const;

 private:
  /// The source of a read: a value that was made `age` steps before.
  struct Source {
    Value key;   ///< a carry of the old loop, a value of its body, or its induction variable
    Value made;  ///< the value of the body that becomes `key`
    int stage = 0, age = 0;
  };
  struct Carried {
    Value key, made;
    int stage = 0;
    std::vector<Value> of_age;                         ///< of_age[i] is i + 1 steps old
    bool is_read_early = false, is_read_late = false;  ///< by stage 0, by others
  };

  int age_of_result(int stage) const;
  bool is_made_in_body(Value v) const { return home_of(k_, v) == body_; }
  std::optional<Source> source(Value v, int stage) const;
  void need(Value v, int stage);
  Carried& carry(const Source& s);
  const Carried* find(Value key) const;
  Value now(Value made, int stage) const;
  std::size_t carry_index(Value v) const { return k_[v].position - 1; }

  Kernel& k_;
  OpId loop_;
  RegionId body_;
  const LoopOrder& order_;
  std::vector<Carried> carried_;
  std::vector<ValueMap> made_;  ///< made by the step, per stage
  Value iteration_;
};

}  // namespace tegula::ir
