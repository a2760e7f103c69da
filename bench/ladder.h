#pragma once
// The optimization ladder of the Hopper GEMM: one kernel of eight lines with plans that enable one
// feature after another (bench/ladder.def).
#include <span>
#include <string>

#include "bench/bench.h"

namespace tegula::bench {

struct Rung {
  const char* name;
  int rows, columns;   ///< extents of a tile
  int group;           ///< group_m: rows of tiles that are rasterized together; 0: all
  const char* fields;  ///< fields of the plan
};
std::span<const Rung> rungs();

/// Computes C = A B in bf16 by the rung's kernel. Throws CompileError if the plan is not possible.
void climb(const Rung& rung, const Stream& stream, Tensors operands);
/// Returns a report on the kernel compiled last for the rung.
std::string explain(const Rung& rung);

/// Adds the case "ladder": A, B, C; the number selects the rung.
void add_ladder(std::vector<Case>& list);

}  // namespace tegula::bench
