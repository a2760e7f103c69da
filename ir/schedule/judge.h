#pragma once
// Decides whether a Schedule is legal for a kernel, and derives sizes and register counts from it.
#include <cstdint>
#include <vector>

#include "ir/schedule/graph.h"
#include "ir/schedule/reason.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// Facts derived from a Schedule and its kernel. They are not part of the Schedule.
struct Derived {
  struct OfChannel {
    std::int64_t slot_bytes = 0;  ///< shared memory of a slot; 0: none
    int minimal_slots = 1;        ///< minimum for which roles do not wait in a cycle
  };
  std::vector<OfChannel> channels;  ///< indexed like Schedule::channels
  std::int64_t shared_bytes = 0;    ///< slots and mbarriers
  std::vector<int> registers;       ///< per role: registers of a thread
};

struct Verdict {
  Reasons reasons;  ///< from the first group of rules that is violated; empty if legal
  Derived derived;  ///< incomplete if a rule is violated
  bool is_legal() const { return reasons.empty(); }
};

/// Checks a Schedule against the rules. `k` is in tile form, or in machine form before its dots are
/// pipelined; `graph` is its graph. The shared memory of conversions and reductions that have no
/// channel in the Schedule is not counted.
Verdict judge(const Kernel& k, const Graph& graph, const Schedule& schedule);

}  // namespace tegula::ir
