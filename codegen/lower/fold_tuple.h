#pragma once
// Shared parts of reductions and scans: tuples of register vectors, functions that combine two
// tuples, and the exchange of partial results between warps.
#include <functional>

#include "codegen/lower/linear_exchange.h"
#include "codegen/lower/lowering.h"

namespace tegula::codegen {

using Tuple = std::vector<ir::Value>;
/// Combines two tuples of register vectors of equal length.
using Combine = std::function<Tuple(const Tuple&, const Tuple&)>;

/// Returns the registers `indices` of each member.
inline Tuple pick(Lowering& l, const Tuple& tuple, const std::vector<std::int64_t>& indices) {
  Tuple picked;
  for (ir::Value v : tuple) picked.push_back(l.regs(v, indices));
  return picked;
}
/// Returns `a` where the condition is true, else `b`.
inline Tuple choose(Lowering& l, ir::Value condition, const Tuple& a, const Tuple& b) {
  Tuple chosen;
  for (std::size_t i = 0; i < a.size(); ++i) chosen.push_back(l.b.select(condition, a[i], b[i]));
  return chosen;
}

/// Returns a function that inlines the region of a user-defined fold at each use.
Combine combine_by_region(Lowering& l, ir::RegionId region);
/// For tuples with an i1 "valid" as last member: combines two valid tuples, else returns the valid
/// one.
Combine combine_valid(Lowering& l, Combine combine);
/// Returns a predicate: true in registers that hold elements of the tile; null if the dimension has
/// no padding.
ir::Value inside_along(Lowering& l, const ir::LinearLayout& layout, int dim);

/// Partial results of several warps for the same elements, in scratch memory laid out
/// [element][part].
struct WarpParts {
  std::int64_t elements = 1, parts = 1;
  std::function<ir::Value()> element;                     ///< element number of each register
  std::function<ir::Value(std::int64_t bytes)> own_part;  ///< part number of the warp times bytes
  std::function<ir::Value()> writes;  ///< predicate of the threads that write; none: all
};
/// Returns every part of the registers' elements; a thread reads the parts of an element as
/// vectors.
std::vector<ir::Value> exchange_parts(Lowering& l, ir::Value v, const WarpParts& p);
/// Returns a predicate: true in one of the threads that hold copies of `layout`; `lanes` is the
/// mask of lane bits that number the copies.
ir::Value is_first_copy(Lowering& l, const ir::LinearLayout& layout, std::uint32_t lanes);
/// Returns the mask of the lane bits that number copies of `layout`.
std::uint32_t lanes_of_copies(const ir::LinearLayout& layout);

}  // namespace tegula::codegen
