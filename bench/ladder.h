#pragma once
// The ladder of the Hopper product: one kernel of eight lines under plans that switch on one thing
// after the other (bench/ladder.def).
#include <span>
#include <string>

#include "bench/bench.h"

namespace tegula::bench {

struct Rung {
  const char* name;
  int rows, columns;   ///< extents of a tile
  int group;           ///< rows of tiles that are finished together; 0: all, in order
  const char* fields;  ///< fields of the plan
};
std::span<const Rung> rungs();

/// C = A B of bf16 by the rung's kernel; throws CompileError where it cannot have the rung's plan.
void climb(const Rung& rung, const Stream& stream, Tensors operands);
/// Report on the kernel compiled last for the rung.
std::string explain(const Rung& rung);

/// The case "ladder": A, B, C; the number of the rung.
void add_ladder(std::vector<Case>& list);

}  // namespace tegula::bench
