// Live ranges of tiles that a loop carries, and tiles that threads compute again.
#include "ir/passes/schedule/live_tiles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/text.h"

namespace tegula::ir::live_tiles_test {
namespace {

/// Sums over rows, each of which is loaded one iteration ahead.
struct RowSums {
  int columns = 1792;
  std::string in_bounds = ", in_bounds = [1]";  ///< of the loads of rows
  std::string product = "mul %w, %g";           ///< live across a sum
  std::string read_again = "%g";                ///< after that sum, in addition to the product

  Kernel parsed() const {
    return parse(fmt::format(R"(
kernel @rows tile target(sm_90a) (%x: view<?x{columns}xf16, in> [arg = 0], %v: view<{columns}xf32, in> [arg = 1], %y: view<{columns}xf32, out> [arg = 2], %end: i32 [arg = 3]) {{
  launch {{
    %one = const [value = 1] : i32
    yield %one, %one, %one
  }}
  %zero = const [value = 0] : i32
  %step = const [value = 1] : i32
  %first = load_view %x, %zero, %zero [axes = [1]{in_bounds}] : tile<{columns}xf16>
  %w = load_view %v, %zero [axes = [0], in_bounds = [0]] : tile<{columns}xf32>
  %none = const [value = 0.0] : tile<{columns}xf32>
  %row, %total = for %zero, %end, %step, %first, %none : tile<{columns}xf16>, tile<{columns}xf32> {{ (%i: i32, %now: tile<{columns}xf16>, %part: tile<{columns}xf32>)
    %after = add %i, %step : i32
    %next = load_view %x, %after, %zero [axes = [1]{in_bounds}] : tile<{columns}xf16>
    %g = cast %now : tile<{columns}xf32>
    %wg = {product} : tile<{columns}xf32>
    %sum = reduce %wg [axis = 0, kind = "sum"] : f32
    %scaled = mul %wg, %sum : tile<{columns}xf32>
    %both = add %scaled, {read_again} : tile<{columns}xf32>
    %sums = add %part, %both : tile<{columns}xf32>
    yield %next, %sums
  }}
  store_view %y, %total, %zero [axes = [0], in_bounds = [0]]
}}
)",
                             fmt::arg("columns", columns), fmt::arg("in_bounds", in_bounds),
                             fmt::arg("product", product), fmt::arg("read_again", read_again)));
  }
};

/// A thread of one warp has 47 registers of each f32 tile and 24 of each f16 tile: the next row,
/// the weights, the row as f32, the quotient and the sums.
TEST(LiveTiles, CarryOfLoadedTileEndsAtItsLastUse) {
  const Kernel k = RowSums{.columns = 1504, .product = "div %w, %g"}.parsed();
  EXPECT_GT(live_tiles(k, 32).registers, 215);
  EXPECT_TRUE(live_tiles_fit(k, 1));  // 24 + 4 * 47 <= 215
}

/// The product is computed again from the weights and the row, which are live across the sum.
TEST(LiveTiles, ProductsOfLiveTilesAreComputedAgain) {
  const Kernel k = RowSums().parsed();
  EXPECT_TRUE(live_tiles_fit(k, 1));  // 28 + 3 * 56 <= 215
}

TEST(LiveTiles, OtherTilesAreKept) {
  const auto expect_two_warps = [](const char* what, const RowSums& rows) {
    const Kernel k = rows.parsed();
    EXPECT_FALSE(live_tiles_fit(k, 1)) << what;
    EXPECT_EQ(warps_that_fit(k, 1), 2) << what;
  };
  expect_two_warps("a quotient", {.product = "div %w, %g"});
  expect_two_warps("masked rows", {.in_bounds = ""});
  expect_two_warps("%now would stay live", {.columns = 2048, .read_again = "%w"});
}

}  // namespace
}  // namespace tegula::ir::live_tiles_test
