#pragma once
// The one place that says whether a Schedule can be carried out for a kernel, and what follows from
// it.
#include <cstdint>
#include <vector>

#include "ir/schedule/graph.h"
#include "ir/schedule/reason.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// The facts that follow from a Schedule and its kernel; no part of the value.
struct Derived {
  struct OfChannel {
    std::int64_t slot_bytes = 0;  ///< shared memory of a slot; 0: none
    int minimal_slots = 1;        ///< the fewest with which the roles do not wait in a cycle
  };
  std::vector<OfChannel> channels;  ///< as in Schedule::channels
  std::int64_t shared_bytes = 0;    ///< slots and mbarriers
  std::vector<int> registers;       ///< per role, registers that a thread has
};

struct Verdict {
  Reasons reasons;  ///< of the first group of rules that refuses; none: the Schedule is legal
  Derived derived;  ///< as far as the judgement came
  bool is_legal() const { return reasons.empty(); }
};

/// `k` is in tile form, or in machine form before its dots are pipelined; `graph` is its graph.
/// Conversions and reductions through shared memory that the Schedule has no channel for do not
/// count for its shared memory.
Verdict judge(const Kernel& k, const Graph& graph, const Schedule& schedule);

}  // namespace tegula::ir
