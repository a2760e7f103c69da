// Plans reductions; see reduction.h. Coordinates whose indices are equal except along the reduced
// dimension differ by the kernel of the sliced map. The plan is derived from the parts of that
// kernel in registers, lanes, warps and blocks.
#include "ir/layout/reduction.h"

#include <map>
#include <set>

#include "ir/layout/layout_ops.h"

namespace tegula::ir {
namespace {

/// Returns the packed bases of one coordinate without dimension `dim`.
BitBasis sliced_bases(const LinearLayout& layout, HwDim in, int dim) {
  BitBasis out;
  for (int b = 0; b < layout.in_bits(in); ++b) {
    Dims basis = layout.basis(in, b);
    basis[dim] = 0;
    out.push_back(layout.pack(basis));
  }
  return out;
}

BitBasis kernel_of(const BitBasis& columns) { return Echelon(columns).relations(); }

/// Returns masks of one coordinate that lead to other parts of the same result, without copies.
std::vector<int> masks(const LinearLayout& layout, HwDim in, int dim) {
  const auto own = layout.packed_bases(in);
  const BitBasis copies = kernel_of(BitBasis(own.begin(), own.end()));
  std::vector<int> out;
  for (BitVector v : extension(copies, kernel_of(sliced_bases(layout, in, dim))))
    out.push_back(static_cast<int>(v));
  return out;
}

/// Returns true if the kernel is the sum of the kernels of the coordinates.
bool is_separable(const std::array<BitBasis, 4>& bases) {
  BitBasis all;
  std::size_t parts = 0;
  for (const BitBasis& b : bases) {
    all.insert(all.end(), b.begin(), b.end());
    parts += kernel_of(b).size();
  }
  return kernel_of(all).size() == parts;
}

std::vector<std::vector<int>> combined_registers(const LinearLayout& layout,
                                                 const LinearLayout& result, int dim) {
  const auto key = [](const Dims& d) { return std::vector<int>(d.begin(), d.end()); };
  std::map<std::vector<int>, std::vector<int>> parts;
  std::set<std::vector<int>> seen;
  for (int r = 0; r < layout.registers(); ++r) {
    Dims index = layout.apply({.reg = r});
    if (!seen.insert(key(index)).second) continue;  // a copy
    index.erase(dim);
    parts[key(index)].push_back(r);
  }
  std::vector<std::vector<int>> out;
  for (int r = 0; r < result.registers(); ++r)
    out.push_back(parts.at(key(result.apply({.reg = r}))));
  return out;
}

}  // namespace

int ReductionPlan::warps() const {
  int n = 1 << warp_masks.size();
  for (const ThreadDigit& d : warp_digits) n *= d.count;
  return n;
}

Result<ReductionPlan> plan_reduction(const LinearLayout& layout, int dim) {
  std::array<BitBasis, 4> own, sliced;
  for (HwDim in : kIns) {
    const auto bases = layout.packed_bases(in);
    own[static_cast<std::size_t>(in)].assign(bases.begin(), bases.end());
    sliced[static_cast<std::size_t>(in)] = sliced_bases(layout, in, dim);
  }
  if (!is_separable(own) || !is_separable(sliced))
    return Result<ReductionPlan>::refused(
        "parts of one result are along sums of register, lane and warp bits");
  ReductionPlan plan;
  plan.result = slice(layout, dim);
  plan.registers = combined_registers(layout, plan.result, dim);
  plan.lane_masks = masks(layout, HwDim::Lane, dim);
  plan.warp_masks = masks(layout, HwDim::Warp, dim);
  plan.warp_digits = digits_along(layout, HwDim::Warp, dim);
  plan.block_masks = masks(layout, HwDim::Block, dim);
  plan.block_digits = digits_along(layout, HwDim::Block, dim);
  return plan;
}

}  // namespace tegula::ir
