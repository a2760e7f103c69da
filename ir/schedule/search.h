#pragma once
// A search over the legal Schedules of a kernel: random restarts and local moves, scored by the
// model of timeline.h.
#include <cstdint>
#include <random>

#include "ir/schedule/graph.h"
#include "ir/schedule/schedule.h"

namespace tegula::ir {

/// One random change of a Schedule, which may make it illegal: two steps of a role change places, a
/// step moves by a stage, slots, MMAs in flight or registers change by one unit, a tile that is
/// stored stays in registers or the other way round, a token comes or goes. False if it did
/// nothing.
bool random_move(Schedule& s, std::mt19937_64& random);

struct SearchOptions {
  int restarts = 4, moves = 200;  ///< moves of each restart
  std::uint64_t seed = 1;
};

struct SearchResult {
  Schedule schedule;  ///< the best one; the start where none is better
  double cycles = 0;  ///< of an iteration
  int tried = 0, legal = 0;
};

/// `start` is legal for the kernel (as for judge). Restarts begin with it and with the list
/// scheduler's; worse neighbours are taken now and then, at the beginning more often.
SearchResult search_schedules(const Kernel& k, const Graph& graph, const Schedule& start,
                              const SearchOptions& options = {});

}  // namespace tegula::ir
