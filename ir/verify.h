#pragma once
// Checks every invariant of a kernel in its form and reports all violations.
//
// In every form:
// - An op has the numbers of operands, results and regions of its row in ir/ops.def, and the types
//   that the row infers, layouts aside; its family is legal in the form.
// - A value is used only where its definition dominates: after it, or in regions nested below.
// - A terminator is the last op of its region; a region that passes on values ends in a `yield` of
//   the types that its owner takes, and the arguments of a loop's regions are its carries.
// - A pending value (an MMA in flight) has one use: another MMA, a wait, a fence, a loop that
//   carries it or a yield. Uses in different regions of an `if` are counted separately.
// - A cluster has 1, 2, 4 or 8 programs; `cluster_reduce_scatter` is outside of loops and branches
//   and cuts its tile evenly; `reshape` keeps the number of elements.
// Tile form has tiles (without layouts) and views, no shared memory. Machine form has both, and
// shared tiles. Simt form has neither: scalars, registers of one thread, tensor maps.
// Invariants that a pass adds are checked by separate passes: `check_channels` (rings of machine
// form), `check_simt` (barriers, fences, MMAs in flight of simt form).
#include <vector>

#include "ir/kernel.h"
#include "tegula/error.h"

namespace tegula::ir {

/// Returns the violations; empty if the kernel is well formed for `kernel.info.form`.
std::vector<Diagnostic> verify(const Kernel& kernel);
/// Throws InternalError that lists every violation below the printed kernel.
void verify_or_throw(const Kernel& kernel, std::string_view after = "");

}  // namespace tegula::ir
