#pragma once
// A search over the legal Schedules of a kernel: random restarts and local moves, scored by the
// model of timeline.h.
#include <cstdint>
#include <random>

#include "ir/schedule/graph.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// Applies one random change to a Schedule, which may make it illegal. The change swaps two steps
/// of a role, moves a step by one stage, changes slots, MMAs in flight or registers by one unit,
/// switches a channel between smem and register, moves a load to another TMA channel, or adds or
/// removes a token. Returns false if the change does not apply.
bool random_move(Schedule& s, std::mt19937_64& random);

struct SearchOptions {
  int restarts = 4, moves = 200;  ///< moves of each restart
  std::uint64_t seed = 1;
};

struct SearchResult {
  Schedule schedule;  ///< the best one found; `start` if none is better
  double cycles = 0;  ///< per iteration, in the model
  int tried = 0, legal = 0;
};

/// Searches by simulated annealing from `start`, which must be legal for the kernel (see judge).
/// Restarts alternate between the best Schedule so far, initially `start` or that of the list
/// scheduler, and `start`.
SearchResult search_schedules(const Kernel& k, const Graph& graph, const Schedule& start,
                              const SearchOptions& options = {});

}  // namespace tegula::ir
