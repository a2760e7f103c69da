#pragma once
// Simulated timeline of a Schedule: the activities of each role of a CTA in a simple model of an
// SM. Order, waits and releases follow the Schedule; durations come from the model.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/schedule/graph.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// Throughput of an SM per cycle, and latencies in cycles (NVIDIA H100 white paper: 989 TFLOPS of
/// dense bf16, 132 SMs of 128 lanes, 16 exponentials per cycle).
struct SmModel {
  double multiply_adds = 2048;  ///< of 16-bit operands, by wgmma
  double lanes = 128, exponentials = 16;
  double copied_bytes = 64;  ///< by TMA, from L2
  double copy_latency = 700, mma_latency = 60, barrier = 30;
  double issue = 20;  ///< of a TMA load, or of the wgmmas of a dot
};
/// Returns the model of a target's SM. Without wgmma, tensor cores do half the work per cycle.
SmModel sm_model(Target target);

struct Timeline {
  /// The slots of a channel in shared memory.
  struct Ring {
    std::size_t channel = 0;  ///< index in Schedule::channels
    std::string name;         ///< tensors that it loads, or the channel's own name
    std::int64_t slots = 1, slot_bytes = 0;
  };
  /// An interval of time. `number` is the number of the ring fill that it refers to.
  struct Span {
    double begin = 0, end = 0;
    std::int64_t number = 0;
    std::string text, note;
  };
  /// One fill of a slot: issue of the copy, arrival of its data, release by the last reader.
  struct Fill {
    std::size_t ring = 0;
    std::int64_t slot = 0, number = 0;
    double issued = 0, landed = 0, released = 0;
  };
  /// A warpgroup, or a role of fewer warps.
  struct Actor {
    std::string name;
    std::size_t role = 0;  ///< index in Schedule::roles
    std::vector<Span> waits, computes, releases, mmas;
  };

  std::vector<Ring> rings;
  std::vector<Actor> actors;  ///< in the order of the roles
  std::vector<Span> mmas;     ///< of all actors, as the tensor cores run them
  std::vector<Fill> fills;
  double end = 0;
};

struct TimelineOptions {
  int iterations = 6, tiles = 1;  ///< iterations of each scheduled loop in each tile
  /// Names of tensors, indexed by kernel argument; other parameters keep their own names.
  std::vector<std::string> names = {};
};

/// Simulates a Schedule. `k` is in machine form before its dots are pipelined, and `s` is legal for
/// it. Branches are assumed not taken. Returns nothing if the roles wait for each other in a cycle.
std::optional<Timeline> timeline_of(const Kernel& k, const Graph& graph, const Schedule& s,
                                    const TimelineOptions& options = {});

/// Returns the cycles of an iteration in the steady state, or nothing if the roles wait for each
/// other in a cycle.
std::optional<double> cycles_of_iteration(const Kernel& k, const Graph& graph, const Schedule& s);

}  // namespace tegula::ir
