// Grouped GEMMs over experts' rows, exact on small integers, and rows permuted and combined.
#include "kernels/moe/expert_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/moe/rows.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/moe/placement_reference.h"

namespace tegula::test::experts::expert_products_test {
using namespace kernels;
namespace {

using tegula::kernels::experts::CombineRows;
using tegula::kernels::experts::ExpertDown;
using tegula::kernels::experts::ExpertUp;
using tegula::kernels::experts::PermuteRows;

class ExpertProducts : public testing::TestWithParam<Device> {
 protected:
  Tensor integers(const Dims& shape, std::uint64_t seed, DType dtype = DType::bf16) const {
    return Tensor::integers(shape, dtype, -3, 4, seed, GetParam());
  }
  Tensor filled(const Dims& shape, DType dtype = DType::bf16) const {
    return Tensor::full(shape, -99, dtype, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ExpertProducts, testing::ValuesIn(devices()), device_name);

/// Segments of these lengths, on the device.
struct Lengths {
  std::vector<int> of;
  int rows = 0;

  Lengths(std::vector<int> lengths) : of(std::move(lengths)) {
    for (int n : of) rows += n;
  }
  std::int64_t experts() const { return static_cast<std::int64_t>(of.size()); }
  Tensor offsets(Device device) const {
    std::vector<i32> sums{0};
    for (int n : of) sums.push_back(sums.back() + n);
    return Tensor::from(sums, device);
  }
  Tensor first_tiles(int block, Device device) const {
    std::vector<i32> sums{0};
    for (int n : of) sums.push_back(sums.back() + (n + block - 1) / block);
    return Tensor::from(sums, device);
  }
  /// The expert of each row.
  std::vector<std::size_t> owners() const {
    std::vector<std::size_t> all;
    for (std::size_t e = 0; e < of.size(); ++e)
      all.insert(all.end(), static_cast<std::size_t>(of[e]), e);
    return all;
  }
};

/// Sums of X's rows times their expert's rows of W.
std::vector<double> product(const Tensor& X, const Tensor& W, const Lengths& lengths) {
  const auto x = X.to_doubles(), w = W.to_doubles();
  const auto n = static_cast<std::size_t>(W.size(1)), k = static_cast<std::size_t>(W.size(2));
  const auto owners = lengths.owners();
  std::vector<double> y(owners.size() * n);
  for (std::size_t r = 0; r < owners.size(); ++r)
    for (std::size_t c = 0; c < n; ++c)
      for (std::size_t i = 0; i < k; ++i)
        y[r * n + c] += x[r * k + i] * w[(owners[r] * n + c) * k + i];
  return y;
}

std::vector<Lengths> ragged() {
  return {Lengths({40}),        Lengths({0, 0, 0}),         Lengths({0, 1, 0, 15, 16, 17, 0}),
          Lengths({100, 0, 3}), Lengths(std::vector(9, 2)), Lengths({0, 0, 70})};
}

TEST_P(ExpertProducts, DownOverRaggedSegments) {
  for (const ExpertTileConfig& c : {ExpertTileConfig{.bm = 64, .bn = 64},
                                    {.bm = 128, .bn = 128},
                                    {.bm = 16, .bn = 64, .swap_ab = true},
                                    {.bm = 32, .bn = 128, .swap_ab = true},
                                    {.bm = 48, .bn = 64, .swap_ab = true},
                                    {.bm = 160, .bn = 128, .swap_ab = true},
                                    {.bm = 192, .bn = 64},
                                    {.bm = 128, .bn = 128, .multicast = true},
                                    {.bm = 256, .bn = 128, .swap_ab = true, .multicast = true}}) {
    const ExpertDown<bf16> body{.config = c};
    const auto down = kernel("moe_down", body).prefer(body.plan());
    for (const Lengths& lengths : ragged()) {
      SCOPED_TRACE(testing::Message() << c.bm << " " << c.swap_ab << " " << lengths.rows);
      const std::int64_t rows = lengths.rows + 5, h = 72, i = 136;  // 5 rows of dropped choices
      const Tensor A = integers({rows, i}, 1), D = integers({lengths.experts(), h, i}, 2),
                   bias = integers({lengths.experts(), h}, 3), Y = filled({rows, h});
      down(A, D, bias, lengths.offsets(GetParam()), lengths.first_tiles(c.bm, GetParam()), Y);
      if (c.multicast && GetParam().kind == DeviceKind::sim) {
        EXPECT_NE(down.explain().find("multicast=1"), std::string::npos);
      }
      const auto want = product(A, D, lengths), b = bias.to_doubles(), got = Y.to_doubles();
      const auto owners = lengths.owners();
      const auto width = static_cast<std::size_t>(h);
      for (std::size_t at = 0; at < got.size(); ++at) {
        const std::size_t row = at / width;
        const double expected =
            row < owners.size() ? Tensor::full({1}, want[at] + b[owners[row] * width + at % width],
                                               DType::bf16, Device::cpu())
                                      .to_doubles()[0]
                                : -99;
        ASSERT_EQ(got[at], expected) << row << ", " << at % width;
      }
    }
  }
}

/// The row of `choices` to a token that each row is of.
std::vector<i32> slots(int rows) {
  std::vector<i32> all;
  for (int r = 0; r < rows; ++r) all.push_back(r * 7 % rows);
  return all;
}
/// The rows of the slots' tokens, on the host.
Tensor gathered(const Tensor& X, const std::vector<i32>& slots, int choices) {
  const auto x = X.to_doubles();
  const auto width = static_cast<std::size_t>(X.size(1));
  std::vector<f32> rows;
  for (const i32 slot : slots)
    for (std::size_t i = 0; i < width; ++i)
      rows.push_back(static_cast<f32>(x[static_cast<std::size_t>(slot / choices) * width + i]));
  return Tensor::from(rows, {std::ssize(slots), X.size(1)}, Device::cpu());
}

TEST_P(ExpertProducts, UpWithActivationAndPreActivations) {
  for (const ExpertTileConfig& c :
       {ExpertTileConfig{.bm = 64, .bn = 64},
        {.bm = 16, .bn = 64, .swap_ab = true},
        {.bm = 80, .bn = 64, .swap_ab = true},
        {.bm = 128, .bn = 64, .multicast = true},
        {.bm = 80, .bn = 128, .swap_ab = true, .gathers = true},
        {.bm = 128, .bn = 64, .gathers = true, .multicast = true},
        {.bm = 112, .bn = 64, .swap_ab = true, .gathers = true, .multicast = true}}) {
    SCOPED_TRACE(testing::Message() << c.bm << " " << c.gathers);
    const Lengths lengths({3, 0, c.gathers ? 300 : 70, 16});
    // Copies of gathered rows come around their ring.
    const std::int64_t rows = lengths.rows, h = c.gathers && !c.multicast ? 456 : 72, i = 40;
    const Tensor X = integers({rows, h}, 1), W = integers({4, 2 * i, h}, 2),
                 bias = integers({4, 2 * i}, 3), A = filled({rows, i}), H = filled({rows, 2 * i});
    const ExpertUp<bf16> body{.activation = clamped_swiglu(5), .config = c};
    const auto up = kernel("moe_up", body).prefer(body.plan());
    const std::vector<i32> slot_of = slots(lengths.rows);
    up(X, c.gathers ? Tensor::from(slot_of, GetParam()) : Tensor(), 3, W.slice(1, 0, i),
       W.slice(1, i, 2 * i), bias.slice(1, 0, i), bias.slice(1, i, 2 * i),
       lengths.offsets(GetParam()), lengths.first_tiles(c.bm, GetParam()), A, H);
    if (c.multicast && GetParam().kind == DeviceKind::sim) {
      EXPECT_NE(up.explain().find("shared=1"), std::string::npos) << up.explain();
    }
    const auto want = product(c.gathers ? gathered(X, slot_of, 3) : X, W, lengths),
               b = bias.to_doubles(), a = A.to_doubles(), got = H.to_doubles();
    const auto owners = lengths.owners();
    const auto width = static_cast<std::size_t>(2 * i);
    const auto pre = [&](std::size_t r, std::size_t n) {
      return want[r * width + n] + b[owners[r] * width + n];
    };
    for (std::size_t r = 0; r < owners.size(); ++r)
      for (std::size_t n = 0; n < width / 2; ++n) {
        const double g = std::min(pre(r, n), 5.0), u = std::clamp(pre(r, n + width / 2), -5.0, 5.0),
                     expected = g / (1 + std::exp(-1.702 * g)) * (u + 1);
        ASSERT_NEAR(a[r * width / 2 + n], expected, 0.004 * std::abs(expected) + 1e-4)
            << r << " " << n;
        ASSERT_NEAR(got[r * width + n], pre(r, n), 0.004 * std::abs(pre(r, n)));
      }
  }
}

TEST_P(ExpertProducts, ByTmaAndWgmmaOnHopper) {
  if (GetParam().kind != DeviceKind::sim) GTEST_SKIP() << "the plan is that of sim";
  const Lengths lengths({130, 0, 2});
  const Tensor A = integers({132, 128}, 1), D = integers({3, 128, 128}, 2), Y = filled({132, 128});
  const auto down = kernel("moe_down", ExpertDown<bf16>{});
  down(A, D, Tensor(), lengths.offsets(GetParam()), lengths.first_tiles(128, GetParam()), Y);
  const std::string report = down.explain();
  EXPECT_NE(report.find("dot by wgmma"), std::string::npos) << report;
  const std::string ptx = down.ptx();
  EXPECT_NE(ptx.find("cp.async.bulk.tensor"), std::string::npos);
  EXPECT_EQ(ptx.find("cp.async.ca"), std::string::npos);
}

TEST_P(ExpertProducts, RowsComeAndGo) {
  const Routed routed{2, {1, 0, 1, 3, 0, 1, 3, -1, 1, 0}, Doubles(10, 0.5)};
  const Placement placed = place(routed, 4);
  const std::int64_t tokens = 5, h = 40;
  const Tensor X = integers({tokens, h}, 1), P = filled({2 * tokens, h}), O = filled({tokens, h});
  std::vector<i32> slots(placed.slot_of.begin(), placed.slot_of.end());
  slots.resize(10, 1 << 30);
  const std::vector<i32> row_of(placed.row_of.begin(), placed.row_of.end());
  const Tensor rows = Tensor::from(row_of, {tokens, 2}, GetParam());
  kernel("moe_permute", PermuteRows<bf16>{})(X, rows, Tensor(), P);
  kernel("moe_combine", CombineRows<bf16>{})(
      P, rows, Tensor::full({tokens, 2}, 0.5, DType::f32, GetParam()), O);
  const auto x = X.to_doubles(), p = P.to_doubles(), o = O.to_doubles();
  for (std::size_t r = 0; r < 10; ++r)
    for (std::size_t c = 0; c < 40; ++c)
      ASSERT_EQ(p[r * 40 + c], r < 9 ? x[static_cast<std::size_t>(slots[r] / 2) * 40 + c] : -99);
  for (std::size_t i = 0; i < o.size(); ++i) ASSERT_EQ(o[i], i / 40 == 3 ? x[i] / 2 : x[i]);
}

}  // namespace
}  // namespace tegula::test::experts::expert_products_test
