#include "ir/reshape_groups.h"

namespace tegula::ir {

std::vector<ReshapeGroup> reshape_groups(std::span<const std::int64_t> from,
                                         std::span<const std::int64_t> to) {
  std::vector<ReshapeGroup> groups;
  std::size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    ReshapeGroup g{i, i, j, j};
    std::int64_t have = 1, want = 1;
    do {
      if (g.from_end < from.size() && (have <= want || g.to_end == to.size()))
        have *= from[g.from_end++];
      else
        want *= to[g.to_end++];
    } while (have != want);
    groups.push_back(g);
    i = g.from_end;
    j = g.to_end;
  }
  return groups;
}

std::size_t whole_dim(const ReshapeGroup& group, std::span<const std::int64_t> to) {
  std::int64_t count = 1;
  for (std::size_t d = group.to; d < group.to_end; ++d) count *= to[d];
  std::size_t whole = group.to;
  while (whole < group.to_end && to[whole] != count) ++whole;
  return whole;
}

int dim_after_reshape(std::span<const std::int64_t> from, std::span<const std::int64_t> to,
                      int dim) {
  for (const ReshapeGroup& g : reshape_groups(from, to)) {
    if (static_cast<std::size_t>(dim) >= g.from_end) continue;
    const std::size_t whole = whole_dim(g, to);
    return whole < g.to_end ? static_cast<int>(whole) : -1;
  }
  return -1;
}

}  // namespace tegula::ir
