#pragma once
// Checks loops that the author declared independent: finds two iterations of one program that
// access one element, one of them writing. Iterations run one at a time, so the access that is
// recorded first belongs to an earlier iteration or to the same one.
#include <cstdint>
#include <optional>
#include <unordered_map>

#include "ir/kernel.h"

namespace tegula::ir::interp {

enum class StepUse : std::uint8_t { Read, Write, Atomic };

class StepRaces {
 public:
  explicit StepRaces(OpId loop) : loop_(loop) {}

  OpId loop() const { return loop_; }
  void next_step() { ++step_; }
  /// Returns the op of an earlier iteration that conflicts, if any. `element` is a host address.
  std::optional<OpId> touch(std::uintptr_t element, StepUse use, OpId op);

 private:
  /// The earliest access of each kind; step 0 means there is none.
  struct First {
    std::int64_t step = 0;
    OpId op;
  };
  struct Element {
    First first[3];
  };

  OpId loop_;
  std::int64_t step_ = 0;
  std::unordered_map<std::uintptr_t, Element> elements_;
};

}  // namespace tegula::ir::interp
