#pragma once
// Checks every invariant of a kernel in its form and reports all violations.
//
// In every form:
// - An op has as many operands, results and regions as its row of ir/ops.def says, and the types
//   that the row infers, layouts aside; its family is legal in the form.
// - A value is used only where its definition dominates: behind it, or in regions below.
// - A terminator is the last op of its region; a region that hands on values ends in a `yield` of
//   the types that its owner takes, and the arguments of a loop's regions are its carries.
// - A pending value (a product in flight) has one user, a branch's two sides counted once each:
//   another product, a wait, a fence, a loop that carries it or a yield.
// - A cluster has 1, 2, 4 or 8 programs; `cluster_reduce_scatter` stands outside of loops and
// branches and
//   cuts its tile evenly; `reshape` keeps the number of elements.
// Tile form has tiles (without layouts) and views, no shared memory. Machine form has both, and
// shared tiles. Simt form has neither: scalars, registers of one thread, tensor maps.
// What a pass adds beyond is checked by a pass of its own: `check_channels` (rings of machine
// form), `check_simt` (barriers, fences, products in flight of simt form).
#include <vector>

#include "ir/kernel.h"
#include "tegula/error.h"

namespace tegula::ir {

/// Empty when the kernel is well formed for `kernel.info.form`.
std::vector<Diagnostic> verify(const Kernel& kernel);
/// Throws InternalError listing every violation under the printed kernel.
void verify_or_throw(const Kernel& kernel, std::string_view after = "");

}  // namespace tegula::ir
