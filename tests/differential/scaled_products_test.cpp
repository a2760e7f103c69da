// Matmuls whose epilogue scales the accumulators, as quantized layers do, gated units with the
// function that models use, and results of 8 bits, on every available device.
#include <gtest/gtest.h>

#include <cmath>

#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::scaled_products_test {
using namespace kernels;
namespace {

using test::expect_equal;
using test::product;

/// Configurations of every decomposition of a matmul.
const MatmulConfig kWays[] = {
    {.bm = 64, .bn = 64, .bk = 128},
    {.bm = 128, .bn = 128, .bk = 128, .multicast = Multicast::b, .tma_store = true},
    {.bm = 64, .bn = 128, .bk = 64, .pingpong = true},
    {.bm = 64, .bn = 96, .bk = 128, .split = SplitK::partials, .parts = 2},
    {.bm = 64, .bn = 64, .bk = 128, .split = SplitK::cluster, .parts = 2},
    {.bm = 32, .bn = 64, .bk = 128, .swap_ab = true},
    {.bm = 64, .bn = 64, .bk = 64, .split = SplitK::stream, .parts = 5}};

class ScaledMatmul : public test::OnDevice {
 protected:
  /// Factors that f32 holds and that rounding shows.
  Tensor factors(std::int64_t count, std::uint64_t seed) const {
    return Tensor::uniform({count}, DType::f32, 0.01, 3, seed, GetParam());
  }
  template <class T, class O>
  void check_scales(const MatmulConfig& config, const MatmulOptions& options = {}) const;
  template <class T, class O>
  void check_silu(double bound) const;
};
INSTANTIATE_TEST_SUITE_P(Devices, ScaledMatmul, testing::ValuesIn(test::devices()),
                         test::device_name);

/// Sums are exact, and each factor rounds once: f32 on the host gives the very bits.
template <class T, class O>
void ScaledMatmul::check_scales(const MatmulConfig& config, const MatmulOptions& options) const {
  SCOPED_TRACE(std::string(name(dtype_of<T>)) + " to " + std::string(name(dtype_of<O>)) + " " +
               config.str() + (options.fp32_promotion ? " promoted" : ""));
  const auto scaled = fused_matmul<T, O>(
      [](Tile acc, Index m, Index n, In<f32, 1> rows, In<f32, 1> columns, Scalar<f32> all) {
        return acc * expand(rows(m), 1) * expand(columns(n), 0) * all;
      },
      options);
  const std::int64_t m = 136, n = 152, k = 272;
  const float all = 0.37f;
  const Tensor A = integers({m, k}, dtype_of<T>, 1), B = integers({k, n}, dtype_of<T>, 2, true),
               rows = factors(m, 3), columns = factors(n, 4), C = empty({m, n}, dtype_of<O>);
  scaled.run(config, stream(), A, B, C, rows, columns, all);
  auto want = product(A, B);
  const auto r = rows.to_doubles(), c = columns.to_doubles();
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::size_t width = static_cast<std::size_t>(n);
    want[i] = static_cast<float>(want[i]) * static_cast<float>(r[i / width]) *
              static_cast<float>(c[i % width]) * all;
  }
  expect_equal(C, want);
  if (GetParam().kind == DeviceKind::cpu) return;
  const std::string said = scaled.explain(config);
  EXPECT_NE(said.find("dot by wgmma"), std::string::npos) << said;
}

TEST_P(ScaledMatmul, TheTensorItsRowsAndColumns) {
  for (const MatmulConfig& c : kWays) {
    check_scales<f8e4m3, bf16>(c);
    check_scales<f8e5m2, f32>(c);
  }
}

TEST_P(ScaledMatmul, PromotedAccumulators) {
  check_scales<f8e4m3, f32>({.bm = 64, .bn = 64, .bk = 128}, {.fp32_promotion = true});
  check_scales<f8e5m2, f16>({.bm = 128, .bn = 64, .bk = 128, .pingpong = true},
                            {.fp32_promotion = true});
}

/// The sums, integers, are exact, and an eighth of them spreads over all of the function's range;
/// then the error is that of the sigmoid's approximations (2^-21 of it), of two products in f32,
/// and of what rounds to O.
template <class T, class O>
void ScaledMatmul::check_silu(double bound) const {
  SCOPED_TRACE(std::string(name(dtype_of<T>)) + " to " + std::string(name(dtype_of<O>)));
  const auto gated = gated_matmul<T, O>(
      [](Tile gate, Tile up, Index, Index) { return silu(gate * 0.125f) * (up * 0.125f); });
  const std::int64_t m = 136, n = 136, k = 272;
  const Tensor A = integers({m, k}, dtype_of<T>, 1), G = integers({k, n}, dtype_of<T>, 2, true),
               U = integers({k, n}, dtype_of<T>, 3, true), C = empty({m, n}, dtype_of<O>);
  const auto gate = product(A, G), up = product(A, U);
  for (const MatmulConfig& config : {MatmulConfig{.bm = 128, .bn = 64, .bk = 64},
                                     {.bm = 64, .bn = 64, .bk = 64, .pingpong = true},
                                     {.bm = 128, .bn = 128, .bk = 64, .multicast = Multicast::b}}) {
    SCOPED_TRACE(config.str());
    gated.run(config, stream(), A, G, U, C);
    const auto got = C.to_doubles();
    int negative = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double x = gate[i] / 8, want = x / (1 + std::exp(-x)) * (up[i] / 8);
      ASSERT_LE(std::abs(got[i] - want), bound * std::abs(want) + 1e-30)
          << "element " << i << ": " << got[i] << " for " << want << " of gate " << x;
      negative += x < -1 && x > -8 && want != 0;
    }
    // Negative inputs, for which silu is not a rectifier.
    EXPECT_GT(negative, static_cast<int>(got.size()) / 8);
  }
}

TEST_P(ScaledMatmul, GatedBySilu) {
  check_silu<bf16, f32>(0x1p-20);
  check_silu<bf16, bf16>(0x1p-8 + 0x1p-20);  // half of the last of 8 digits
  check_silu<f16, f32>(0x1p-20);
  check_silu<f8e4m3, f32>(0x1p-20);
}

/// Results of 8 bits: the conversion that C++ has for the type, of every sum.
TEST_P(ScaledMatmul, StoredIn8Bits) {
  const auto quantized = fused_matmul<bf16, f8e4m3>(
      [](Tile acc, Index, Index, Scalar<f32> scale) { return acc * scale; });
  const std::int64_t m = 136, n = 152, k = 272;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2, true),
               C = empty({m, n}, DType::f8e4m3);
  for (const float scale : {0.03125f, 0.37f, 7.0f}) {
    auto want = product(A, B);
    for (double& v : want) v = static_cast<float>(f8e4m3(static_cast<float>(v) * scale));
    for (const MatmulConfig& c : kWays) {
      SCOPED_TRACE(c.str() + " scale " + std::to_string(scale));
      quantized.run(c, stream(), A, B, C, scale);
      expect_equal(C, want);
    }
  }
}

}  // namespace
}  // namespace tegula::scaled_products_test
