#pragma once
// Layouts of the results of the tile language's shape operations, computed from the layout of the
// operand.
//
// These operations do not move data between threads. Unless a list of registers is returned,
// register r of the result is register r of the operand (modulo the operand's number of registers
// if the result has more).

#include <vector>

#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// A layout and, for each of its registers, the operand register that holds its element.
struct RegisterView {
  LinearLayout layout;
  std::vector<int> registers;
};

/// Removes dimension `dim`: the layout of a reduction's result. Registers that became copies are
/// dropped; lanes, warps and blocks along `dim` hold copies.
LinearLayout slice(const LinearLayout& layout, int dim);

/// Inserts a new dimension of extent 1 before dimension `position`.
LinearLayout expand_dim(const LinearLayout& layout, int position);
/// Makes dimension i of the result dimension order[i] of the operand.
LinearLayout permute(const LinearLayout& layout, const Dims& order);
/// Changes the shape; elements keep their row-major number. Refused if a repeat digit would end up
/// among bits of another dimension, or a padded dimension would be cut or merged.
Result<LinearLayout> reshape(const LinearLayout& layout, const Dims& shape);
/// Changes the extent 1 of `dim` to `extent`; every thread holds all of it. broadcast_registers()
/// maps the registers.
Result<LinearLayout> broadcast(const LinearLayout& layout, int dim, int extent);
/// For each register of `to`, returns the register of `from` in the same thread that holds its
/// element; dimensions of extent 1 in `from` are read at index 0. Refused if some element is in
/// another thread: a conversion is needed first.
Result<std::vector<int>> broadcast_registers(const LinearLayout& from, const LinearLayout& to);

/// Returns the box of `extents` at `offset`, if registers alone select it (so that the same
/// registers of each thread form the box).
Result<RegisterView> subtile(const LinearLayout& layout, const Dims& offset, const Dims& extents);

/// Exchanges bits of lanes and registers so that a thread holds runs of `run` elements (a power of
/// two) along `dim`, of which lanes held the lower bits: a conversion within warps. In exchange,
/// lanes receive the register bits of `dim` above the run, or else bits of other dimensions.
/// Refused if there are too few such bits.
Result<LinearLayout> lengthen_runs(const LinearLayout& layout, int dim, int run);
/// Returns the same coordinates with the elements renumbered so that lanes vary fastest, then
/// warps, then registers. With this numbering a warp's accesses to scratch memory have no bank
/// conflicts. Refused for layouts with repeat digits.
Result<LinearLayout> number_lanes_first(const LinearLayout& layout);
/// Drops registers whose elements repeat those of an earlier register.
RegisterView drop_register_copies(const LinearLayout& layout);

}  // namespace tegula::ir
