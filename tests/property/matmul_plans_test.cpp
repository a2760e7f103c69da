// Each kind of plan that a wgmma matmul in one kernel can have, 100 random matmuls each; split-K is
// in matmul_split_k_test.cpp, others in matmul_decompositions_test.cpp. The law: random_products.h.
#include "tests/property/random_products.h"

namespace tegula::matmul_plans_test {
namespace {

using test::DrawnProduct;
using test::Draws;
using test::expect_exact_in;
using test::is_by_wgmma;
using test::says;

TEST(MatmulPlans, AProgramForEachTile) {
  expect_exact_in({"a program for each tile",
                   [](Draws&, DrawnProduct& x) {
                     force_whole(x);
                     x.config.pingpong = false;
                     x.plan["persistent"] = 0;
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "persistent=0");
                   }});
}

TEST(MatmulPlans, Persistent) {
  expect_exact_in({"persistent",
                   [](Draws&, DrawnProduct& x) {
                     force_persistent(x);
                     x.config.pingpong = false;
                     x.plan["dynamic_scheduler"] = 0;
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "persistent=1 dynamic_scheduler=0") &&
                            says(said, "pingpong=0 }");
                   }});
}

TEST(MatmulPlans, Pingpong) {
  expect_exact_in({"tiles in turn",
                   [](Draws& d, DrawnProduct& x) {
                     if (!x.config.swap_ab) x.config.bm = d.of({64, 128});
                     force_persistent(x);
                     x.config.pingpong = true;
                     x.plan["dynamic_scheduler"] = 0;
                     x.plan["producer_warps"] = d.of({1, 4});
                     // Accumulators of several blocks of 64 rows, whose registers follow each
                     // other.
                     if (x.rows() > 64)
                       (x.config.swap_ab ? x.config.bm : x.config.bn) = d.of({16, 32, 64, 128});
                     if (x.config.swap_ab) x.config.bn = d.of({64, 128});
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "pingpong=1 }");
                   }});
}

TEST(MatmulPlans, TilesByACounter) {
  expect_exact_in({"tiles by a counter",
                   [](Draws&, DrawnProduct& x) {
                     // Operands are laid out for TMA: the dynamic scheduler follows their copies.
                     lie_for_tma(x);
                     force_persistent(x);
                     x.config.pingpong = false;
                     x.plan["dynamic_scheduler"] = 1;
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "dynamic_scheduler=1");
                   }});
}

TEST(MatmulPlans, OperandsShared) {
  expect_exact_in({"operands shared",
                   [](Draws&, DrawnProduct& x) {
                     force_persistent(x);
                     x.config.multicast = Multicast::b;
                     x.plan["dynamic_scheduler"] = 0;
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "shared=1");
                   }});
}

TEST(MatmulPlans, ThreeWarpgroups) {
  expect_exact_in({"three warpgroups",
                   [](Draws& d, DrawnProduct& x) {
                     if (x.config.swap_ab)
                       x.config.bn = 192;
                     else
                       not_swapped(d, x, 192);
                     force_whole(x);
                     x.config.pingpong = false;
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "plan { num_warps=12 ");
                   }});
}

TEST(MatmulPlans, StoredByTma) {
  expect_exact_in({"stored by TMA",
                   [](Draws& d, DrawnProduct& x) {
                     force_persistent(x);
                     // Rows of C that begin and end with 16 bytes.
                     x.n = (x.n + 7) / 8 * 8;
                     x.c = {false, d.flip() ? 8 * d.between(1, 4) : 0, 0};
                     if (x.c.padding > 0 && d.flip()) x.c.offset = 8;
                     x.config.swap_ab = false;
                     x.config.tma_store = true;
                     not_swapped(d, x, x.config.pingpong ? 64 : d.of({64, 128, 192}));
                     x.plan["epilogue_tile_n"] = d.of({16, 32, 64});
                     x.config.bn = 16 * d.between(1, 12);
                     x.config.stages = d.of({2, 3});
                     x.plan.erase("stages");
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "applied: stored by TMA");
                   }});
}

/// setmaxnreg is for whole warpgroups, and what it may ask for depends on how many compute.
TEST(MatmulPlans, RegistersTakenOver) {
  expect_exact_in({"registers taken over",
                   [](Draws& d, DrawnProduct& x) {
                     not_swapped(d, x, d.of({128, 128, 192, 256}));
                     force_whole(x);
                     x.config.pingpong = x.config.pingpong && x.config.bm == 128;
                     x.plan["producer_warps"] = 4;
                     x.plan["consumer_registers"] = x.config.bm == 128   ? 8 * d.between(22, 30)
                                                    : x.config.bm == 192 ? 8 * d.between(17, 20)
                                                                         : 8 * d.between(13, 14);
                   },
                   [](const DrawnProduct& x, std::string_view said) {
                     return is_by_wgmma(said) &&
                            says(said, "consumer_registers=" +
                                           std::to_string(x.plan.at("consumer_registers")) + " ");
                   }});
}

}  // namespace
}  // namespace tegula::matmul_plans_test
