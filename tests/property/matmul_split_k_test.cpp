// Each kind of split-K, 100 random matmuls each. The law: random_products.h.
#include "tests/property/random_products.h"

namespace tegula::matmul_split_k_test {
namespace {

using test::DrawnProduct;
using test::Draws;
using test::expect_exact_in;
using test::is_by_wgmma;
using test::says;

/// A single iteration is not divided.
void force_iterations(DrawnProduct& x) {
  if (x.k <= x.config.bk) x.k += x.config.bk;
}

/// A second kernel adds the partial accumulators of slices of k, some of which may have no
/// iteration.
TEST(MatmulSplitK, TwoKernels) {
  expect_exact_in({"divided",
                   [](Draws& d, DrawnProduct& x) {
                     force_whole(x);
                     x.batch = 0, x.one_b = false;
                     x.config.split = SplitK::partials, x.config.parts = d.of({2, 3, 4, 7});
                     force_iterations(x);
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "kernel matmul_split_k for");
                   }});
}

TEST(MatmulSplitK, InACluster) {
  expect_exact_in({"clustered",
                   [](Draws& d, DrawnProduct& x) {
                     force_whole(x);
                     x.batch = 0, x.one_b = false;
                     x.config.split = SplitK::cluster, x.config.parts = d.of({2, 4, 8});
                     // Rows that a cluster can cut: of 3 times 64 it cannot, with most widths.
                     if (x.rows() == 192) (x.config.swap_ab ? x.config.bn : x.config.bm) = 128;
                     force_iterations(x);
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "kernel matmul_cluster_split_k for");
                   }});
}

TEST(MatmulSplitK, StreamK) {
  expect_exact_in({"steps dealt evenly",
                   [](Draws& d, DrawnProduct& x) {
                     force_wgmma(x);
                     x.config.split = SplitK::stream, x.config.parts = d.between(1, 14);
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "kernel matmul_stream_k for");
                   }});
}

}  // namespace
}  // namespace tegula::matmul_split_k_test
