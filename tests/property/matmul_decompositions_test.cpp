// Matmuls of exchanged operands and of batches, and those without wgmma, 100 random ones each; and
// whatever is drawn where nothing is forced. The law: random_products.h.
#include "tests/property/random_products.h"

namespace tegula::matmul_decompositions_test {
namespace {

using test::DrawnProduct;
using test::Draws;
using test::expect_exact_in;
using test::is_by_wgmma;
using test::says;

/// mma.sync's warps side by side along both dimensions, as many as divide the tile.
void draw_warps(Draws& d, DrawnProduct& x) {
  const int m = d.of({1, 2, 4}), n = d.of({1, 2, 4});
  const int across = x.columns() % (8 * n) == 0 ? n : 1;
  x.plan["num_warps"] = m * across, x.plan["warps_m"] = m, x.plan["warps_n"] = across;
}

TEST(MatmulDecompositions, Swapped) {
  expect_exact_in({"swap_ab",
                   [](Draws& d, DrawnProduct& x) {
                     x.config.swap_ab = true;
                     x.config.bm = 8 * d.between(1, d.flip() ? 6 : 32);
                     x.config.bn = d.of({64, 128, 192, 256});
                     force_wgmma(x);
                   },
                   [](const DrawnProduct& x, std::string_view said) {
                     return is_by_wgmma(said) && x.config.swap_ab;
                   }});
}

TEST(MatmulDecompositions, Batched) {
  expect_exact_in({"batched",
                   [](Draws& d, DrawnProduct& x) {
                     force_wgmma(x);
                     x.config.split = SplitK::none, x.config.parts = 1;
                     x.batch = d.between(1, 4);
                     x.m = (x.m + 1) / 2, x.n = (x.n + 1) / 2;
                     x.one_b = d.rarely(3);
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "kernel matmul_batched for");
                   }});
}

TEST(MatmulDecompositions, MmaSync) {
  expect_exact_in({"mma.sync",
                   [](Draws& d, DrawnProduct& x) {
                     x.k = std::max<std::int64_t>(x.k, 1);
                     x.plan["wgmma"] = 0;
                     draw_warps(d, x);
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return !is_by_wgmma(said) && says(said, "dot by tensor cores");
                   }});
}

/// Rows that TMA does not load with a swizzle: rings of copies by threads, with iterations so large
/// that memory has room for two or three slots.
TEST(MatmulDecompositions, CopiedByThreads) {
  expect_exact_in({"copied by threads",
                   [](Draws& d, DrawnProduct& x) {
                     x.operands = d.of({DType::bf16, DType::f16});
                     x.result = d.flip() ? DType::f32 : x.operands;
                     x.options = {};
                     lie_for_tma(x);
                     x.b.transposed = false;
                     not_swapped(d, x, d.of({64, 128}));
                     x.config.bn = 8 * (2 * d.between(6, 15) + 1);
                     x.config.bk = d.of({64, 128, 256});
                     x.config.operands = OperandPath::tma;
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return !is_by_wgmma(said) && says(said, "pipelined by cp.async");
                   }});
}

/// Operands that TMA does not take, read element by element.
TEST(MatmulDecompositions, Direct) {
  expect_exact_in({"direct",
                   [](Draws& d, DrawnProduct& x) {
                     x.operands = d.of({DType::bf16, DType::f16});
                     x.result = d.flip() ? DType::f32 : x.operands;
                     x.options = {};
                     x.config.bk = d.of({16, 32, 64});
                     x.config.operands = OperandPath::direct;
                     x.m |= 1, x.k |= 1;
                     if (d.flip()) x.n |= 1;
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return says(said, "dot by tensor cores") &&
                            says(said, "not pipelined: rows are not aligned for cp.async");
                   }});
}

/// f32 at its full precision.
TEST(MatmulDecompositions, FusedMultiplyAdd) {
  expect_exact_in({"fused multiply-add",
                   [](Draws& d, DrawnProduct& x) {
                     x.operands = x.result = DType::f32;
                     x.options = {};
                     x.m = (x.m + 1) / 2, x.n = (x.n + 1) / 2, x.k = (x.k + 1) / 2;
                     x.config.bm = d.of({16, 32, 64}), x.config.bn = d.of({16, 32, 64});
                     x.config.bk = d.of({8, 16, 32});
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return !is_by_wgmma(said) && !says(said, "dot by tensor cores");
                   }});
}

/// Nothing is forced: whatever a user may ask for.
TEST(MatmulDecompositions, Any) {
  expect_exact_in({"any", [](Draws&, DrawnProduct&) {},
                   [](const DrawnProduct&, std::string_view) { return true; }});
}

}  // namespace
}  // namespace tegula::matmul_decompositions_test
