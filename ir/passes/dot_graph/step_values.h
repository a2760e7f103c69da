#pragma once
// Values of a loop's steps: a step reads what it has made itself, or what an earlier one has.
//
// In step t an op of stage s runs for iteration t - s. A value of an op of stage u that it reads
// was made s - u steps before; one that the loop carries, s + 1 - u steps before. Such values are
// carried by the loop that is built, as often as they are steps old.
#include <unordered_map>
#include <vector>

#include "ir/clone_op.h"
#include "ir/loop.h"
#include "ir/passes/dot_graph/loop_order.h"

namespace tegula::ir {

class StepValues {
 public:
  StepValues(Kernel& k, OpId loop, const DotGraph& dots, const LoopOrder& order);

  /// Whether the value is made in the very step in which an op of this stage reads it.
  bool is_of_this_step(Value v, int stage) const;
  /// The value as an op of this stage reads it, in the step that is built.
  Value read(Value v, int stage) const;
  void define(Value v, int stage, Value made) { made_[static_cast<std::size_t>(stage)][v] = made; }

  /// In front of the first step; `iteration` is the induction variable of each step.
  void begin_step(Value iteration);
  /// The values age by a step.
  void end_step();
  /// What the loop of the steady state begins with, and yields at the end of its step.
  std::vector<Value> carried() const;
  std::vector<Value> next() const;
  /// Takes the carries of that loop, or its results: from `values` on, as in carried().
  void take(std::span<const Value> values);
  /// Result `index` of the loop behind its last step, or behind the last one's late stages.
  Value result(std::size_t index) const;
  /// The loop of the steady state begins with this value of the key, in all ages.
  void begin_with(Value key, Value init);
  /// The late stages read values of another loop's, which ended with these (as in carried()).
  void read_late_from(std::span<const Value> values);
  /// The types of the values in carried().
  std::vector<Type> carried_types() const;

 private:
  /// Where a read comes from: a value of so many steps before.
  struct Source {
    Value key;   ///< a carry of the old loop, a value of its body, or its induction variable
    Value made;  ///< the value whose ages those are
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
  std::vector<ValueMap> made_;  ///< by the step, per stage
  Value iteration_;
};

}  // namespace tegula::ir
