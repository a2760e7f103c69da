#pragma once
// The schedule as a value: what the passes of the machine form carry out. A plan is made by the
// pass `plan` from the traced kernel, and may be printed, edited and given back.
#include <string>

namespace tegula::ir {

struct Plan {
  int warps = 4;   ///< of the CTA
  int stages = 3;  ///< slots of every ring of asynchronous copies; 1: no pipelining
  /// The accumulator's warps along its rows and columns; warps_m * warps_n = warps. 0: chosen from
  /// the tile.
  int warps_m = 0;
  int warps_n = 0;
  /// A tile stored from a layout that is narrower than the memory access could be is turned through
  /// shared memory first.
  bool stage_stores = true;
  /// Products of loops are wgmmas on operands that TMA brings (sm_90a); needs warps_n = 1 and 16
  /// rows a warp.
  bool wgmma = false;

  std::string str() const;
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace tegula::ir
