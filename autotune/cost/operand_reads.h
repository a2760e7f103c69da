#pragma once
// Bytes of operands that come from the memory, by the order of tiles and the size of the L2.
#include "autotune/cost/work.h"

namespace tegula::autotune {

/// Bytes of operands that a call reads from the memory. Where tiles that run at once go along k
/// together, a row or a column of operands that they share comes from the memory once; those of the
/// next wave find what they share with them as far as other bytes have not replaced it meanwhile.
/// Out of step, each tile is at a k-iteration of its own, and bytes are replaced between any two
/// that share them, too.
struct OperandReads {
  double in_step = 0, out_of_step = 0;
};

/// `wave` tiles run at once. Lines that all SMs read lie in both halves of the L2, so that half of
/// its bytes count (docs/experiments/2026-11-27-operands-beyond-l2.md).
OperandReads operand_reads(const TileOrder& order, double wave, double l2_bytes);

}  // namespace tegula::autotune
