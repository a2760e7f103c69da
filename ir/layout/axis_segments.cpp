#include "ir/layout/axis_segments.h"

#include <algorithm>

namespace tegula::ir {
namespace {

/// Returns the coordinate that alone determines a bit of the index, or nothing if there is none.
std::optional<HwDim> owner_of_bit(const LinearLayout& layout, int dim, int bit) {
  std::optional<HwDim> owner;
  for (HwDim in : kIns)
    for (int b = 0; b < layout.in_bits(in); ++b) {
      const Dims basis = layout.basis(in, b);
      if ((basis[dim] >> bit & 1) == 0) continue;
      const bool is_alone =
          std::ranges::count(basis, 0) == layout.rank() - 1 && basis[dim] == 1 << bit;
      if (owner || !is_alone) return std::nullopt;
      owner = in;
    }
  return owner;
}

void append(std::vector<AxisSegment>& runs, int extent, HwDim in) {
  const bool is_in_registers = in == HwDim::Register;
  if (runs.empty() || runs.back().is_in_registers != is_in_registers)
    runs.push_back({1, is_in_registers});
  runs.back().extent *= extent;
}

}  // namespace

Result<std::vector<AxisSegment>> axis_segments(const LinearLayout& layout, int dim) {
  using Runs = Result<std::vector<AxisSegment>>;
  if (layout.cover()[dim] != layout.shape()[dim]) return Runs::refused("the dimension is padded");
  std::vector<AxisSegment> runs;
  for (const Repeat& digit : layout.repeats())
    if (digit.dim == dim) append(runs, digit.count, digit.in);
  for (int bit = layout.bits(dim); bit-- > 0;) {
    const auto owner = owner_of_bit(layout, dim, bit);
    if (!owner) return Runs::refused("elements are along sums of the index's bits");
    append(runs, 2, *owner);
  }
  return runs;
}

}  // namespace tegula::ir
