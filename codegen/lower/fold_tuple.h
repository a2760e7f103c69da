#pragma once
// Parts that reductions and scans share: tuples of register vectors, functions that combine two
// of them, and the exchange of the warps' parts of a result.
#include <functional>

#include "codegen/lower/linear_exchange.h"
#include "codegen/lower/lowering.h"

namespace tegula::codegen {

using Tuple = std::vector<ir::Value>;
/// Combines two tuples of register vectors of equal length.
using Combine = std::function<Tuple(const Tuple&, const Tuple&)>;

/// The region of a fold by a function, inlined at each use.
Combine combine_by_region(Lowering& l, ir::RegionId region);
/// Tuples with one i1 more behind the others: of two that are valid the combination, else the valid
/// one.
Combine combine_valid(Lowering& l, Combine combine);
/// True where the registers hold elements of the tile; none where nothing along the dimension is
/// padding.
ir::Value inside_along(Lowering& l, const ir::LinearLayout& layout, int dim);

/// Parts of the same results that several warps have, in scratch memory laid out
/// [element][part].
struct WarpParts {
  std::int64_t elements = 1, parts = 1;
  std::function<ir::Value()> element;  ///< of each register, its element's number
  std::function<ir::Value(std::int64_t bytes)> own_part;  ///< number of the warp's part times bytes
  std::function<ir::Value()> writes;  ///< predicate of the threads that write; none: all
};
/// Every part of the registers' elements: a thread reads the parts of one by vectors.
std::vector<ir::Value> exchange_parts(Lowering& l, ir::Value v, const WarpParts& p);
/// True in one of the places that hold copies of `layout`; `lanes` are bits of lanes that hold
/// copies besides.
ir::Value is_first_copy(Lowering& l, const ir::LinearLayout& layout, std::uint32_t lanes);
/// Bits of lanes that hold copies of `layout`.
std::uint32_t lanes_of_copies(const ir::LinearLayout& layout);

}  // namespace tegula::codegen
