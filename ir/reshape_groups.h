#pragma once
// Matches the dimensions of a reshape's operand and result that hold the same elements.
#include <cstdint>
#include <span>
#include <vector>

namespace tegula::ir {

/// Dimensions [from, from_end) of the operand hold the same elements as [to, to_end) of the result.
struct ReshapeGroup {
  std::size_t from, from_end, to, to_end;
};

/// Returns the finest groups, in order.
std::vector<ReshapeGroup> reshape_groups(std::span<const std::int64_t> from,
                                         std::span<const std::int64_t> to);

/// Returns the result dimension that contains all of the group's elements; `to_end` if there is
/// none.
std::size_t whole_dim(const ReshapeGroup& group, std::span<const std::int64_t> to);

/// Returns the result dimension that operand dimension `dim` becomes together with its whole group,
/// or -1.
int dim_after_reshape(std::span<const std::int64_t> from, std::span<const std::int64_t> to,
                      int dim);

}  // namespace tegula::ir
