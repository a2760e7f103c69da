#pragma once
// Loops whose author says that their steps are independent: finds two steps of one program that
// touch one element, one of them writing. Steps run one after another, so of two accesses the one
// seen first is of an earlier step, or of the same one.
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
  /// The op of an earlier step that conflicts, if any. `element` is an address of the host.
  std::optional<OpId> touch(std::uintptr_t element, StepUse use, OpId op);

 private:
  /// The earliest access of each kind; step 0: none.
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
