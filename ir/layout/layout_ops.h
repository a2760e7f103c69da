#pragma once
// Layouts from layouts: what the shape operations of the tile language do to the layout of their
// operand.
//
// None moves data between threads. Unless a list of registers is returned, the result's register r
// is the operand's register r (modulo the operand's number of registers where the result has more).

#include <vector>

#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// A layout and, per register of it, the register of the operand that holds its element.
struct RegisterView {
  LinearLayout layout;
  std::vector<int> registers;
};

/// Without dimension `dim`: the layout of a reduction's result. Registers that became copies are
/// dropped; lanes, warps and blocks along `dim` hold copies.
LinearLayout slice(const LinearLayout& layout, int dim);

/// A new dimension of extent 1 before dimension `at`.
LinearLayout expand_dim(const LinearLayout& layout, int at);
/// Dimension i of the result is dimension order[i] of the operand.
LinearLayout permute(const LinearLayout& layout, const Dims& order);
/// Elements keep their row-major number. Refused when a repeat digit would end up among bits of
/// another dimension, or a padded dimension would be cut or merged.
Result<LinearLayout> reshape(const LinearLayout& layout, const Dims& shape);
/// Extent 1 of `dim` becomes `extent`, every thread holding all of it; broadcast_registers says
/// which register is which.
Result<LinearLayout> broadcast(const LinearLayout& layout, int dim, int extent);
/// Per register of `to`, the register of `from` in the same thread that holds its element;
/// dimensions of extent 1 in `from` read index 0. Refused if some element lives in another thread:
/// then a conversion is needed first.
Result<std::vector<int>> broadcast_registers(const LinearLayout& from, const LinearLayout& to);

/// The box of `extents` at `offset`, if registers alone select it (so it is the same registers in
/// each thread).
Result<RegisterView> subtile(const LinearLayout& layout, const Dims& offset, const Dims& extents);

/// Bits of lanes and registers exchanged so that a thread holds runs of `run` elements (a power of
/// two) along `dim`, whose lower part its lanes held: a conversion within warps. Lanes get what the
/// registers hold behind such a run, else along other dimensions. Refused where that is too little.
Result<LinearLayout> lengthen_runs(const LinearLayout& layout, int dim, int run);
/// The same places with the elements numbered so that lanes count fastest, then warps, then
/// registers: by these numbers a warp's accesses to scratch memory meet no bank twice. Refused for
/// layouts with repeat digits.
Result<LinearLayout> number_lanes_first(const LinearLayout& layout);
/// Registers whose elements repeat those of an earlier register are dropped.
RegisterView drop_register_copies(const LinearLayout& layout);

}  // namespace tegula::ir
