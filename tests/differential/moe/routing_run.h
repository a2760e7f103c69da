#pragma once
// One run of the routing kernels, and all it stores against the references.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/moe/tile_routing.h"
#include "tegula/tegula.h"
#include "tests/differential/moe/placement_reference.h"
#include "tests/differential/moe/routing_reference.h"

namespace tegula::test::experts {
using namespace kernels;

/// Tensors that the kernels store.
struct RoutedTensors {
  Tensor ids, weights, row_of, slot_of, offsets, first_tiles;
};

/// Kernels that compute the same.
enum class RoutingForm : std::uint8_t { tables, tiles, one_tile };

struct RoutingCase {
  int tokens = 16, experts = 8, shared = 0;
  int capacity = -1;
  bool by_slot = false;
  int group_tokens = 0;
  RoutingForm form = RoutingForm::tiles;
  int block = 16, tiles_of_program = 1;
  int up_rows = 160, down_rows = 48;  ///< of the products' tiles

  tegula::kernels::experts::PlacementShape shape(int k) const {
    return {.experts = experts + shared,
            .k = k + shared,
            .block = block,
            .shared = shared,
            .has_capacity = capacity >= 0,
            .by_slot = by_slot,
            .group_tokens = group_tokens};
  }
};

/// Logits of few values, exact in f32: equal ones are equal for the kernel, too, and no two others
/// are close.
inline Tensor few_logits(const RoutingCase& c, std::uint64_t seed, Device device) {
  const Tensor steps =
      Tensor::integers({c.tokens, c.experts}, DType::f32, -60, 61, seed, Device::cpu());
  std::vector<f32> values = steps.to_vector<f32>();
  for (f32& v : values) v /= 16;
  return Tensor::from(values, {c.tokens, c.experts}, device);
}

/// By tables that the last program makes.
inline void run_tables(const tegula::kernels::experts::TokenChoices& choices, const RoutingCase& c,
                       const Tensor& logits, const Tensor& bias, const RoutedTensors& r) {
  using namespace tegula::kernels::experts;
  const PlacementShape& shape = choices.shape;
  const std::int64_t tiles = std::max(1, (c.tokens + shape.block - 1) / shape.block),
                     groups = (tiles + kTilesPerGroup - 1) / kTilesPerGroup;
  const auto integers = [&](std::int64_t rows, std::int64_t columns) {
    return Tensor::full({rows, columns}, -7, DType::i32, logits.device());
  };
  const Tensor counts = integers(tiles, shape.bins()),
               group_counts = integers(groups, shape.bins()),
               bases = integers(shape.competitions(groups), shape.bins()),
               kept = integers(shape.competitions(groups), shape.experts),
               arrivals = Tensor::zeros({1 + groups}, DType::u32, logits.device());
  kernel("moe_route", RouteTokens{choices})(logits, bias, arrivals, counts, group_counts, bases,
                                            kept, r.offsets, r.first_tiles, c.up_rows, c.down_rows,
                                            r.ids, r.weights, c.capacity);
  for (const double n : arrivals.to_doubles()) EXPECT_EQ(n, 0);
  kernel("moe_place", PlaceTokens{shape})(r.ids, counts, group_counts, bases, kept, r.offsets,
                                          r.first_tiles, c.up_rows, c.down_rows, r.row_of,
                                          r.slot_of, c.capacity);
}

/// By programs that add up the counts of all tiles.
inline void run_tiles(const tegula::kernels::experts::TokenChoices& choices, const RoutingCase& c,
                      const Tensor& logits, const Tensor& bias, const RoutedTensors& r) {
  using namespace tegula::kernels::experts;
  const std::int64_t tiles = std::max(1, (c.tokens + c.block - 1) / c.block);
  const Tensor counts =
      Tensor::full({tiles, counted_experts(choices.shape.experts)}, 7, DType::u16, logits.device());
  kernel("moe_route", RouteTiles{choices})(logits, bias, counts, r.ids, r.weights, r.row_of);
  kernel("moe_place", PlaceTiles{choices.shape, c.tiles_of_program})(
      r.ids, pairs_of(counts), r.offsets, r.first_tiles, c.up_rows, c.down_rows, r.row_of,
      r.slot_of, c.capacity);
}

inline RoutedTensors run_routing(const Router& router, const RoutingCase& c, const Tensor& logits,
                                 const Tensor& bias = {}) {
  using namespace tegula::kernels::experts;
  const Device device = logits.device();
  const TokenChoices choices{router, c.shape(router.k)};
  const PlacementShape& shape = choices.shape;
  const auto integers = [&](const Dims& dims) {
    return Tensor::full(dims, -7, DType::i32, device);
  };
  const RoutedTensors r{
      integers({c.tokens, shape.k}), Tensor::full({c.tokens, shape.k}, NAN, DType::f32, device),
      integers({c.tokens, shape.k}), integers({c.tokens * shape.k}),
      integers({shape.experts + 1}), integers({kTileTables, shape.experts + 1})};
  if (c.form == RoutingForm::one_tile)
    kernel("moe_route", RouteOneTile{choices})(logits, bias, r.offsets, r.first_tiles, c.up_rows,
                                               c.down_rows, r.ids, r.weights, r.row_of, r.slot_of,
                                               c.capacity);
  else
    (c.form == RoutingForm::tiles ? run_tiles : run_tables)(choices, c, logits, bias, r);
  return r;
}

/// The choices with those of shared experts after them.
inline Routed with_shared(const Routed& r, const RoutingCase& c) {
  Routed all{.k = r.k + c.shared, .ids = {}, .weights = {}};
  for (std::size_t i = 0; i < r.ids.size(); ++i) {
    all.ids.push_back(r.ids[i]), all.weights.push_back(r.weights[i]);
    if ((i + 1) % static_cast<std::size_t>(r.k) != 0) continue;
    for (int s = 0; s < c.shared; ++s) all.ids.push_back(c.experts + s), all.weights.push_back(1);
  }
  return all;
}

inline std::vector<int> ints(const Tensor& t) { return t.to_vector<i32>(); }

/// The rows that the choices of the kernel itself must have.
inline void expect_placed(const RoutedTensors& got, const RoutingCase& c, int k) {
  const Routed chosen{k + c.shared, ints(got.ids), got.weights.to_doubles()};
  Capacity capacity{.priority = c.by_slot ? Priority::slot_major : Priority::token_major,
                    .shared = c.shared};
  if (c.capacity >= 0) capacity.rows = c.capacity;
  if (c.group_tokens > 0) capacity.group = c.group_tokens;
  const Placement want = place(chosen, c.experts + c.shared, capacity);
  EXPECT_EQ(ints(got.offsets), want.offsets);
  EXPECT_EQ(ints(got.row_of), want.row_of);
  std::vector<int> slots = ints(got.slot_of);
  slots.resize(want.slot_of.size());
  EXPECT_EQ(slots, want.slot_of);
  std::vector<int> tiles;
  for (int block : {64, 128, c.up_rows, c.down_rows})
    for (int n : want.first_tiles(block)) tiles.push_back(n);
  EXPECT_EQ(ints(got.first_tiles), tiles);
}

inline void expect_routed(const RoutedTensors& got, const Routed& want) {
  EXPECT_EQ(ints(got.ids), want.ids);
  const Doubles weights = got.weights.to_doubles();
  ASSERT_EQ(weights.size(), want.weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i)
    ASSERT_NEAR(weights[i], want.weights[i], 2e-6 * std::abs(want.weights[i])) << i;
}

}  // namespace tegula::test::experts
