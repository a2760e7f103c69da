// Computes the width of the memory accesses to a box.
#include "ir/analysis/access_width.h"

#include <algorithm>
#include <numeric>

#include "ir/analysis/index_facts.h"
#include "ir/gathered_box.h"

namespace tegula::ir {
namespace {

/// Returns the divisor of a box's limit along a view dimension, or 0 if it has no limits.
std::int64_t limit_divisor(const Kernel& k, const OpData& box, std::size_t view_dim) {
  const auto limits = limits_of_box(k, box);
  return limits.empty() ? 0 : divisor_of(k, limits[view_dim]);
}

Type tile_of(const Kernel& k, const OpData& box) {
  return k.type(box.opcode == Opcode::LoadView
                    ? box.results[0]
                    : box.operands[box.opcode == Opcode::StoreView ? 1 : 0]);
}

/// Returns the extent of the box along the dimension that accesses run along, or 0 if no dimension
/// is contiguous. Guards check only the first element of an access, so an access must not cross the
/// end of the box, where other elements are stored.
std::int64_t extent_along(const Kernel& k, const OpData& box) {
  const int t = contiguous_dim(k, box);
  const Type tile = tile_of(k, box);
  if (t < 0 || tile.rank() == 0) return 0;
  const auto slots = static_cast<std::size_t>(tile.rank()) - box.attrs.ints(AttrName::axes).size();
  return tile.shape()[slots + static_cast<std::size_t>(t)];
}

/// Returns true if consecutive lines of the box start one element apart (windows of a signal, with
/// two strides of 1). Most of these lines are unaligned.
bool has_overlapping_lines(const Kernel& k, const OpData& box) {
  const auto axes = box.attrs.ints(AttrName::axes);
  const Type tile = tile_of(k, box);
  const ViewFacts& facts = k.type(view_of_box(box)).view_facts();
  int lines = 0;
  for (std::size_t t = 0; t < axes.size(); ++t) {
    const auto extent = tile.shape()[static_cast<std::size_t>(tile.rank()) - axes.size() + t];
    lines += facts.strides[static_cast<std::size_t>(axes[t])] == 1 && extent > 1;
  }
  return lines > 1;
}

}  // namespace

int contiguous_dim(const Kernel& k, const OpData& box) {
  const auto axes = box.attrs.ints(AttrName::axes);
  const ViewFacts& facts = k.type(view_of_box(box)).view_facts();
  for (std::size_t t = 0; t < axes.size(); ++t)
    if (const auto v = static_cast<std::size_t>(axes[t]); facts.strides[v] == 1)
      return is_gathered(k, box, v) ? -1 : static_cast<int>(t);
  return -1;
}

int piece_elements(const Kernel& k, const OpData& box) {
  const Type view = k.type(view_of_box(box));
  const ViewFacts& facts = view.view_facts();
  if (has_overlapping_lines(k, box)) return 1;
  std::int64_t elements = std::max<std::int64_t>(1, facts.align / size_bytes(view.dtype()));
  elements = std::gcd(elements, extent_along(k, box));
  for (std::size_t v = 0; v < facts.strides.size(); ++v)
    if (facts.strides[v] != 1)
      elements =
          std::gcd(elements, facts.strides[v] == kDynamic ? facts.stride_div[v] : facts.strides[v]);
  return static_cast<int>(
      std::max<std::int64_t>(1, std::gcd(elements, box.attrs.i(AttrName::offset_divisibility, 1))));
}

int access_elements(const Kernel& k, const OpData& box) {
  const Type view = k.type(view_of_box(box));
  const ViewFacts& facts = view.view_facts();
  const auto inside = box.attrs.ints(AttrName::in_bounds);
  std::int64_t elements = piece_elements(k, box);
  const auto rank = static_cast<std::size_t>(view.rank());
  for (std::size_t v = 0; v < rank; ++v) {
    const bool proved = std::ranges::find(inside, static_cast<std::int64_t>(v)) != inside.end();
    if (facts.strides[v] != 1 || proved) continue;
    elements = std::gcd(elements, view.shape()[v] != kDynamic ? view.shape()[v] : facts.dim_div[v]);
    elements = std::gcd(elements, limit_divisor(k, box, v));
  }
  return static_cast<int>(std::max<std::int64_t>(1, elements));
}

}  // namespace tegula::ir
