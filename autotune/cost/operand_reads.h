#pragma once
// Estimates the operand bytes read from memory, from the order of tiles and the size of the L2.
#include "autotune/cost/work.h"

namespace tegula::autotune {

/// Operand bytes that a call reads from memory. In step, concurrent tiles advance along k together:
/// a row or column of operands that they share is read once, and the next wave finds shared
/// operands in the L2 unless other bytes have replaced them. Out of step, each tile is at a
/// different k-iteration, so that shared bytes may be replaced between any two of their uses.
struct OperandReads {
  double in_step = 0, out_of_step = 0;
};

/// `wave` tiles run at once. Lines that all SMs read occupy both halves of the L2, which halves its
/// effective size (docs/experiments/2026-11-27-operands-beyond-l2.md).
OperandReads operand_reads(const TileOrder& order, double wave, double l2_bytes);

}  // namespace tegula::autotune
