#pragma once
// A Schedule in time: what the roles of a CTA do when, by a simple model of an SM. Order, waits and
// releases are those of the Schedule; lengths are the model's.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/schedule/graph.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// The work of an SM in a cycle, and latencies in cycles (NVIDIA H100 white paper: 989 TFLOPS of
/// dense bf16, 132 SMs of 128 lanes, 16 exponentials a cycle).
struct SmModel {
  double multiply_adds = 2048;  ///< of 16-bit operands, by wgmma
  double lanes = 128, exponentials = 16;
  double copied_bytes = 64;  ///< by TMA, from L2
  double copy_latency = 700, mma_latency = 60, barrier = 30;
  double issue = 20;  ///< of a TMA load, or of the wgmmas of a dot
};
/// The model of a target's SM: without wgmma, tensor cores do half the work in a cycle.
SmModel sm_model(Target target);

struct Timeline {
  /// Slots in shared memory of a channel.
  struct Ring {
    std::size_t channel = 0;  ///< index in Schedule::channels
    std::string name;         ///< tensors that it brings, or the channel's own name
    std::int64_t slots = 1, slot_bytes = 0;
  };
  /// Something that takes time. `number` counts the fills of the ring it is about.
  struct Span {
    double begin = 0, end = 0;
    std::int64_t number = 0;
    std::string text, note;
  };
  /// A slot from the copy's issue over its landing to the release by its last reader.
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
  /// Names of tensors by position among the kernel's arguments; else the parameters' own.
  std::vector<std::string> names = {};
};

/// `k` is in machine form before its dots are pipelined, `s` legal for it. Branches count as not
/// taken. Nothing if the roles wait for each other.
std::optional<Timeline> timeline_of(const Kernel& k, const Graph& graph, const Schedule& s,
                                    const TimelineOptions& options = {});

/// Cycles of an iteration in the steady state; nothing if the roles wait for each other.
std::optional<double> cycles_of_iteration(const Kernel& k, const Graph& graph, const Schedule& s);

}  // namespace tegula::ir
