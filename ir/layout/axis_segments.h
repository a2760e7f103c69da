#pragma once
// Splits an index along one dimension into segments owned by the thread and by the register.

#include <vector>

#include "ir/layout/linear_layout.h"

namespace tegula::ir {

/// A run of adjacent digits of the index that are all in registers, or all in lanes, warps and
/// blocks.
struct AxisSegment {
  int extent = 1;
  bool is_in_registers = true;
  friend bool operator==(const AxisSegment&, const AxisSegment&) = default;
};

/// Returns the segments, most significant first; their extents multiply to the dimension's extent.
/// Refused if a hardware coordinate moves along several dimensions or bits at once (a swizzle), or
/// if the dimension is padded.
Result<std::vector<AxisSegment>> axis_segments(const LinearLayout& layout, int dim);

}  // namespace tegula::ir
