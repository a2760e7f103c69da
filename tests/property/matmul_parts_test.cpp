// Each way of dividing a product's k among programs, in 200 random products each. The law:
// random_products.h.
#include "tests/property/random_products.h"

namespace tegula {
namespace {

using test::DrawnProduct;
using test::Draws;
using test::expect_exact_in;
using test::is_by_wgmma;
using test::says;

/// A second kernel adds the sums of parts of k, some of which may have no step.
TEST(MatmulParts, Divided) {
  expect_exact_in({"divided",
                   [](Draws& d, DrawnProduct& x) {
                     force_whole(x);
                     x.batch = 0, x.one_b = false;
                     x.config.splits = d.of({2, 3, 4, 7});
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "kernel matmul_partial for");
                   }});
}

TEST(MatmulParts, Clustered) {
  expect_exact_in({"clustered",
                   [](Draws& d, DrawnProduct& x) {
                     force_whole(x);
                     x.batch = 0, x.one_b = false;
                     x.config.splits = d.of({2, 4, 8});
                     x.config.clustered = true;
                     // Rows that a cluster can cut: of 3 times 64 it cannot, with most widths.
                     if (x.rows() == 192) (x.config.swapped ? x.config.bn : x.config.bm) = 128;
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "kernel matmul_clustered for");
                   }});
}

/// The kernel of a whole product, or of a batch, split by its plan.
TEST(MatmulParts, SplitByThePlan) {
  expect_exact_in({"split by the plan",
                   [](Draws& d, DrawnProduct& x) {
                     force_whole(x);
                     x.k = 16 * d.between(0, 24);
                     x.plan["splits"] = d.of({2, 4, 8});
                     if (x.rows() == 192) (x.config.swapped ? x.config.bn : x.config.bm) = 128;
                   },
                   [](const DrawnProduct& x, std::string_view said) {
                     return is_by_wgmma(said) &&
                            says(said, "splits=" + std::to_string(x.plan.at("splits")) + " ") &&
                            says(said, "shared by a cluster");
                   }});
}

TEST(MatmulParts, StepsDealtEvenly) {
  expect_exact_in({"steps dealt evenly",
                   [](Draws& d, DrawnProduct& x) {
                     force_wgmma(x);
                     x.config.streamed = d.between(1, 14);
                   },
                   [](const DrawnProduct&, std::string_view said) {
                     return is_by_wgmma(said) && says(said, "kernel matmul_streamed for");
                   }});
}

}  // namespace
}  // namespace tegula
