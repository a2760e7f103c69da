// Tiles that are functions of column - row, computed once per diagonal: what is stored is to the
// bit what each element computes by itself.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tegula/math.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::toeplitz_test {
namespace {

constexpr const char* kOnce = "computed once per diagonal";

class ToeplitzTiles : public testing::TestWithParam<Device> {
 protected:
  static void expect_said(const std::string& said, bool once) {
    if (GetParam().kind == DeviceKind::cpu) return;  // compiles nothing
    EXPECT_EQ(said.find(kOnce) != std::string::npos, once) << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ToeplitzTiles, testing::ValuesIn(test::devices()),
                         test::device_name);

/// A number computed from the distance of a pair, or read from a table of all distances.
using OfDistance = std::function<Tile(const In<f32, 1>& table, const Tile& distance)>;

/// A kernel over a matrix of tiles BM x BN.
struct Shape {
  std::int64_t rows, columns;
  int bm, bn;
};
constexpr Shape kShapes[] = {{64, 64, 16, 16},     {100, 77, 64, 32},   {130, 200, 128, 64},
                             {200, 130, 128, 128}, {70, 300, 32, 128},  {9, 500, 16, 256},
                             {300, 96, 64, 96},    {257, 257, 128, 80}, {1, 1, 16, 16}};

/// T[i, j] = f(j - i). With `hidden` no one can tell that rows are positions: a number that is 0 is
/// XORed to them.
auto matrix_of(const OfDistance& f, const Shape& s, bool hidden) {
  return kernel("matrix", [=](In<f32, 1> table, Scalar<i32> zero, Out<f32, 2> out) {
    for (auto [m, n] : grid(out, s.bm, s.bn)) {
      Tile row = expand(m, 1);
      if (hidden) row = row ^ zero.value();
      out(m, n) = f(table, expand(n, 0) - row + out.rows() - 1);
    }
  });
}

std::string results(const OfDistance& f, const Shape& s, bool hidden, Device device,
                    std::vector<double>& out) {
  const Tensor table = Tensor::normal({s.rows + s.columns - 1}, DType::f32, 0, 1, 5, device),
               made = Tensor::full({s.rows, s.columns}, NAN, DType::f32, device);
  const auto k = matrix_of(f, s, hidden);
  k(Stream(device), table, 0, made);
  out = made.to_doubles();
  return k.explain();
}

TEST_P(ToeplitzTiles, ToTheBit) {
  const std::vector<OfDistance> all{
      [](const In<f32, 1>& t, const Tile& d) { return t(d); },
      [](const In<f32, 1>& t, const Tile& d) { return t(20 - d); },
      [](const In<f32, 1>& t, const Tile& d) { return t(abs(d - 40)) * 0.3f + t(d); },
      [](const In<f32, 1>& t, const Tile& d) {
        return where(d > 30, t(min(d, Tile(35))), fma(t(d + 3), t(-d + 9), 1.5f));
      },
      [](const In<f32, 1>&, const Tile& d) { return log2(cast<f32>(abs(d - 31)) + 1.0f); },
      [](const In<f32, 1>& t, const Tile& d) { return t(cast<i64>(d)) + cast<f32>(cast<i64>(d)); },
      [](const In<f32, 1>& t, const Tile& d) { return cast<f32>(cast<f16>(t(d))); },
      // A value other than 0 or 1 has no separate register that could be passed on.
      [](const In<f32, 1>& t, const Tile& d) { return where(t(d) > 0.0f, 1.0f, cast<f32>(d)); }};
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const Shape& s : kShapes) {
      SCOPED_TRACE(testing::Message()
                   << i << ": " << s.rows << " x " << s.columns << " by " << s.bm << " x " << s.bn);
      std::vector<double> once, each;
      expect_said(results(all[i], s, false, GetParam(), once), true);
      expect_said(results(all[i], s, true, GetParam(), each), false);
      ASSERT_EQ(once, each);
    }
}

/// Against the host; a table's ends are outside, where there is nothing.
TEST_P(ToeplitzTiles, AreTheTables) {
  const Shape s{100, 77, 64, 32};
  std::vector<double> made;
  results([](const In<f32, 1>& t, const Tile& d) { return fill_absent(t(d + 50), 7); }, s, false,
          GetParam(), made);
  const auto table =
      Tensor::normal({s.rows + s.columns - 1}, DType::f32, 0, 1, 5, GetParam()).to_doubles();
  for (std::int64_t i = 0; i < s.rows; ++i)
    for (std::int64_t j = 0; j < s.columns; ++j) {
      const auto at = static_cast<std::size_t>(j - i + s.rows - 1 + 50);
      ASSERT_EQ(made[static_cast<std::size_t>(i * s.columns + j)],
                at < table.size() ? table[at] : 0)
          << i << " " << j;
    }
}

/// A Toeplitz matrix times a vector: the tile in a loop, whose warps' memory each step writes anew.
TEST_P(ToeplitzTiles, InAProductWithAVector) {
  const auto product = kernel("product", [](In<bf16, 1> t, In<f32, 1> x, Out<f32, 1> y) {
    for (auto m : grid(rows(y), 64)) {
      Tile all = zeros<f32>(64);
      for (auto n : steps(x.rows(), 64)) {
        const Tile d = expand(n, 0) - expand(m, 1) + y.rows() - 1;
        all = all + sum(cast<f32>(t(d)) * expand(fill_absent(x(n), 0), 0), 1);
      }
      y(m) = all;
    }
  });
  for (const auto& [m, n] : {std::pair{64, 64}, {1, 200}, {131, 333}, {200, 5}}) {
    SCOPED_TRACE(testing::Message() << m << " x " << n);
    const Tensor t = Tensor::integers({m + n - 1}, DType::bf16, -3, 4, 1, GetParam()),
                 x = Tensor::integers({n}, DType::f32, -3, 4, 2, GetParam()),
                 y = Tensor::full({m}, NAN, DType::f32, GetParam());
    product(Stream(GetParam()), t, x, y);
    expect_said(product.explain(), true);
    const auto table = t.to_doubles(), factors = x.to_doubles(), sums = y.to_doubles();
    for (int i = 0; i < m; ++i) {
      double want = 0;
      for (int j = 0; j < n; ++j)
        want +=
            table[static_cast<std::size_t>(j - i + m - 1)] * factors[static_cast<std::size_t>(j)];
      ASSERT_EQ(sums[static_cast<std::size_t>(i)], want) << i;
    }
  }
}

/// A tensor that may be written meanwhile is read in its place, and a cheap term stays in its
/// place.
TEST_P(ToeplitzTiles, OtherScores) {
  const auto written = kernel("written", [](InOut<f32, 1> t, Out<f32, 2> out) {
    for (auto [m, n] : grid(out, 32, 32)) {
      const Tile d = expand(n, 0) - expand(m, 1) + out.rows() - 1;
      out(m, n) = t(d);
    }
  });
  const auto cheap = kernel("cheap", [](Out<f32, 2> out) {
    for (auto [m, n] : grid(out, 32, 32)) {
      const Tile d = expand(n, 0) - expand(m, 1);
      out(m, n) = cast<f32>(max(d, -d)) * 0.5f;
    }
  });
  const auto sums = kernel("sums", [](In<f32, 1> t, Out<f32, 2> out) {
    for (auto [m, n] : grid(out, 32, 32)) out(m, n) = t(expand(n, 0) + expand(m, 1));
  });
  const auto steep = kernel("steep", [](In<f32, 1> t, Out<f32, 2> out) {
    for (auto [m, n] : grid(out, 32, 32))
      out(m, n) = t(expand(n, 0) - expand(m, 1) - expand(m, 1) + 80);
  });
  const Tensor t = Tensor::normal({130}, DType::f32, 0, 1, 1, GetParam()),
               out = Tensor::full({40, 50}, NAN, DType::f32, GetParam());
  const auto table = t.to_doubles();
  const auto expect = [&](const std::string& said, const std::function<double(int, int)>& want) {
    expect_said(said, false);
    const auto made = out.to_doubles();
    for (int i = 0; i < 40; ++i)
      for (int j = 0; j < 50; ++j)
        ASSERT_EQ(made[static_cast<std::size_t>(i * 50 + j)], want(i, j)) << i << " " << j;
  };
  const auto at = [&](int i) { return table[static_cast<std::size_t>(i)]; };
  const Stream stream(GetParam());
  written(stream, t, out);
  expect(written.explain(), [&](int i, int j) { return at(j - i + 39); });
  cheap(stream, out);
  expect(cheap.explain(), [](int i, int j) { return std::abs(j - i) * 0.5; });
  sums(stream, t, out);
  expect(sums.explain(), [&](int i, int j) { return at(j + i); });
  steep(stream, t, out);
  expect(steep.explain(), [&](int i, int j) { return at(j - 2 * i + 80); });
}

}  // namespace
}  // namespace tegula::toeplitz_test
