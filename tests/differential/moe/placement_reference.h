#pragma once
// Places of the rows of a mixture of experts: choices sorted by expert, with and without capacity.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/differential/moe/routing_reference.h"

namespace tegula::test::experts {

/// The order in which choices take an expert's places.
enum class Priority {
  token_major,  ///< by token, then by slot
  slot_major,   ///< all first choices before all second ones (Mesh TensorFlow, GShard)
  batch,        ///< tokens with the larger best weight first (Riquelme 2021)
};

struct Capacity {
  int rows = std::numeric_limits<int>::max();  ///< of an expert in a group
  Priority priority = Priority::token_major;
  int group = std::numeric_limits<int>::max();  ///< tokens that share the places
  int shared = 0;                               ///< the last experts, which have no capacity
};

/// Rows of the choices, sorted by expert: [tokens, k] and back.
struct Placement {
  std::vector<int> offsets, row_of, slot_of;

  /// Exclusive sums of each expert's tiles of `block` rows: [experts + 1].
  std::vector<int> first_tiles(int block) const {
    std::vector<int> first{0};
    for (std::size_t e = 0; e + 1 < offsets.size(); ++e)
      first.push_back(first.back() + (offsets[e + 1] - offsets[e] + block - 1) / block);
    return first;
  }
};

/// Choices in order of their claims on places.
inline std::vector<std::size_t> claim_order(const Routed& r, Priority priority) {
  const auto k = static_cast<std::size_t>(r.k);
  std::vector<std::size_t> order(r.ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (priority == Priority::slot_major)
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return a % k < b % k; });
  if (priority == Priority::batch)
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return r.weights[a / k * k] > r.weights[b / k * k];
    });
  return order;
}

/// Kept choices of an expert are ordered by group, then by their claims; dropped ones, and those
/// without an expert (id -1), have row -1.
inline Placement place(const Routed& r, int experts, const Capacity& c = {}) {
  const auto k = static_cast<std::size_t>(r.k);
  std::vector<std::vector<std::size_t>> kept(static_cast<std::size_t>(experts));
  const std::vector<std::size_t> order = claim_order(r, c.priority);
  const auto group_of = [&](std::size_t choice) { return static_cast<int>(choice / k) / c.group; };
  const int groups = r.ids.empty() ? 0 : group_of(r.ids.size() - 1) + 1;
  for (int g = 0; g < groups; ++g) {
    std::vector<int> taken(static_cast<std::size_t>(experts));
    for (std::size_t choice : order) {
      const int e = r.ids[choice];
      if (group_of(choice) != g || e < 0) continue;
      if (taken[static_cast<std::size_t>(e)]++ < c.rows || e >= experts - c.shared)
        kept[static_cast<std::size_t>(e)].push_back(choice);
    }
  }
  Placement p{{0}, std::vector<int>(r.ids.size(), -1), {}};
  for (const auto& list : kept) {
    for (std::size_t choice : list) {
      p.row_of[choice] = static_cast<int>(p.slot_of.size());
      p.slot_of.push_back(static_cast<int>(choice));
    }
    p.offsets.push_back(static_cast<int>(p.slot_of.size()));
  }
  return p;
}

}  // namespace tegula::test::experts
