#pragma once
// Splits an index along one dimension into segments owned by the thread and by the register.

#include <vector>

#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// Neighbouring digits of the index that are all of registers, or all of lanes, warps and blocks.
struct AxisSegment {
  int extent = 1;
  bool is_in_registers = true;
  friend bool operator==(const AxisSegment&, const AxisSegment&) = default;
};

/// Most significant first; extents multiply to the dimension's. Refused where a place moves along
/// several dimensions or bits at once (a swizzle), and where the dimension is padded.
Result<std::vector<AxisSegment>> axis_segments(const LinearLayout& layout, int dim);

}  // namespace tegula::ir
