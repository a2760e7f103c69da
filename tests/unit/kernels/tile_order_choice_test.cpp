// When attention takes the tiles of a derived list in the order of their lengths.
#include <gtest/gtest.h>

#include "kernels/attention/heuristics.h"
#include "tegula/kernels/masks.h"
#include "tegula/tegula.h"

namespace tegula::tile_order_choice_test {
using namespace kernels;
namespace {

AttentionCall call_of(std::int64_t batch, std::int64_t heads, std::int64_t queries,
                      std::int64_t keys) {
  const auto of = [&](std::int64_t length) {
    return Tensor::zeros({1, 1, 1, 64}, DType::bf16, Device::sim())
        .broadcast_to({batch, heads, length, 64});
  };
  AttentionCall c;
  c.Q = c.O = of(queries), c.K = c.V = of(keys);
  return c;
}

bool is_ordered(const AttentionCall& c, std::optional<bool> asked = {}) {
  const Tensor ids = Tensor::zeros({64}, DType::i32, Device::cpu());
  const AttentionHeuristics facts({.mask = masks::document(ids)}, {.longest_first = asked});
  return facts.config(c).longest_first;
}

TEST(TileOrderChoice, OneLongTileAmongFew) {
  EXPECT_TRUE(is_ordered(call_of(1, 16, 4096, 4096)));
  EXPECT_TRUE(is_ordered(call_of(1, 16, 16384, 16384)));
  EXPECT_FALSE(is_ordered(call_of(4, 16, 4096, 4096))) << "16 tiles an SM, of 32 steps at most";
  EXPECT_FALSE(is_ordered(call_of(1, 1, 4096, 4096))) << "all tiles run at once";
  EXPECT_FALSE(is_ordered(call_of(16, 32, 1, 4096))) << "tiles of one query";
  EXPECT_FALSE(is_ordered(call_of(1, 1, 131072, 131072))) << "too many to rank";
  EXPECT_FALSE(is_ordered(call_of(1, 16, 4096, 0)));
}

TEST(TileOrderChoice, AsRequested) {
  EXPECT_TRUE(is_ordered(call_of(1, 1, 128, 128), true));
  EXPECT_FALSE(is_ordered(call_of(1, 16, 4096, 4096), false));
}

}  // namespace
}  // namespace tegula::tile_order_choice_test
