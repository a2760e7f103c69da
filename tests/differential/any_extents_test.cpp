// Reshapes, transposes and permutes of tiles of any extents, on every available device; those that
// no register layout can express use shared memory.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::any_extents_test {
namespace {

using test::expect_equal;

class AnyExtents : public test::OnDevice {
 protected:
  /// Numbers that wrap around in narrow types.
  Tensor iota(const Dims& shape, DType dtype) const {
    return Tensor::iota(shape, DType::i64, Device::cpu()).cast(dtype).to(GetParam());
  }
  /// A line of a * b elements as a matrix, transposed, as a line again.
  template <class T>
  void turned(int a, int b) {
    SCOPED_TRACE(testing::Message() << a << " x " << b << " " << name(dtype_of<T>));
    const auto turn = kernel("turn", [=](In<T, 1> x, Out<T, 1> y) {
      for (auto i : grid(y, a * b))
        y(i) = fill_absent(x(i), 0).reshape({a, b}).T().reshape({a * b});
    });
    const Tensor x = iota({2 * a * b}, dtype_of<T>), y = empty({2 * a * b}, dtype_of<T>);
    turn(stream(), x, y);
    const auto in = x.to_doubles();
    std::vector<double> want;
    for (int block = 0; block < 2; ++block)
      for (int j = 0; j < b; ++j)
        for (int i = 0; i < a; ++i)
          want.push_back(in[static_cast<std::size_t>(block * a * b + i * b + j)]);
    expect_equal(y, want);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, AnyExtents, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(AnyExtents, Transposes) {
  for (const auto& [a, b] : {std::pair{32, 3},
                             {3, 32},
                             {48, 2},
                             {24, 4},
                             {10, 16},
                             {16, 10},
                             {12, 20},
                             {7, 9},
                             {96, 160},
                             {160, 96},
                             {100, 10},
                             {128, 96},
                             {1, 97},
                             {97, 1},
                             {5, 3},
                             {33, 31}})
    turned<f32>(a, b);
}

TEST_P(AnyExtents, EveryWidth) {
  turned<i8>(12, 10);
  turned<f16>(24, 4);
  turned<f16>(96, 40);
  turned<bf16>(7, 9);
  turned<i64>(10, 16);
  turned<f64>(48, 2);
}

TEST_P(AnyExtents, Permutes) {
  const auto permuted = kernel("permuted", [](In<f32, 2> x, Out<f32, 2> y) {
    for (auto [r, c] : grid(y, 96, 160))
      y(r, c) =
          permute(fill_absent(x(r, c), 0).reshape({96, 16, 10}), {0, 2, 1}).reshape({96, 160});
  });
  const Tensor x = iota({96, 160}, DType::f32), y = empty({96, 160}, DType::f32);
  permuted(stream(), x, y);
  std::vector<double> want;
  for (int r = 0; r < 96; ++r)
    for (int j = 0; j < 10; ++j)
      for (int i = 0; i < 16; ++i) want.push_back(r * 160 + i * 10 + j);
  expect_equal(y, want);
}

/// The whole matrix, read in column-major order.
TEST_P(AnyExtents, MatricesAsOthers) {
  const auto other = kernel("other", [](In<f32, 2> x, Out<f32, 2> y) {
    for ([[maybe_unused]] auto i : grid(GridSpace(full<i32>(1)), 1)) {
      y(slice(0, 160), slice(0, 96)) =
          fill_absent(x(slice(0, 96), slice(0, 160)), 0).reshape({160, 96}) * 2.0f;
    }
  });
  const Tensor x = iota({96, 160}, DType::f32), y = empty({160, 96}, DType::f32);
  other(stream(), x, y);
  std::vector<double> want(96 * 160);
  std::iota(want.begin(), want.end(), 0);
  for (double& v : want) v *= 2;
  expect_equal(y, want);
}

/// Folds of parts of three, conditions, and pointers: i1 and addresses change threads, too.
TEST_P(AnyExtents, FoldsConditionsAndPointers) {
  const auto mixed =
      kernel("mixed", [](In<f32, 1> x, Out<f32, 1> sums, Out<i32, 1> large, Ptr<f32> copy) {
        for (auto i : grid(x, 96)) {
          const auto parts = slice(i.first() / 3, 32);
          const Tile line = fill_absent(x(i), 0);
          sums(parts) = sum(line.reshape({32, 3}), 1);
          large(i) = cast<i32>((line > 50.0f).reshape({32, 3}).T().reshape({96}));
          store((copy + i.indices()).reshape({24, 4}).T(), line.reshape({24, 4}).T());
        }
      });
  const Tensor x = iota({192}, DType::f32), sums = empty({64}, DType::f32),
               large = empty({192}, DType::i32), copy = empty({192}, DType::f32);
  mixed(stream(), x, sums, large, copy);
  std::vector<double> want_sums, want_large;
  for (int i = 0; i < 64; ++i) want_sums.push_back(9 * i + 3);
  for (int block = 0; block < 2; ++block)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 32; ++i) want_large.push_back(block * 96 + i * 3 + j > 50 ? 1 : 0);
  expect_equal(sums, want_sums);
  expect_equal(large, want_large);
  expect_equal(copy, x.to_doubles());
}

/// Reshapes of tiles that are free to compute: constants and ranges.
TEST_P(AnyExtents, FreeTiles) {
  const auto ranges = kernel("ranges", [](In<i32, 2> x, Out<i32, 2> y) {
    for (auto [r, c] : grid(y, 10, 12))
      y(r, c) = fill_absent(x(r, c), 0) + arange(120).reshape({12, 10}).T();
  });
  const Tensor x = iota({10, 12}, DType::i32), y = empty({10, 12}, DType::i32);
  ranges(stream(), x, y);
  std::vector<double> want;
  for (int r = 0; r < 10; ++r)
    for (int c = 0; c < 12; ++c) want.push_back(r * 12 + c + c * 10 + r);
  expect_equal(y, want);
}

/// A scan's layout has all lanes along its axis, most of which pad a short one.
/// As many dimensions as a tile may have.
TEST_P(AnyExtents, SixDimensions) {
  const auto six =
      kernel("six", [](In<i32, 6> x, Out<i32, 6> y, Out<i32, 5> sums, Out<i32, 6> turned) {
        for (auto [a, b, c, d, e, f] : grid(y, 2, 3, 2, 2, 3, 4)) {
          const Tile t = x(a, b, c, d, e, f);
          y(a, b, c, d, e, f) = t + 1;
          sums(a, b, d, e, f) = sum(sort(cumsum(t, 4), 2), 2);
          turned(f, a, c, b, e, d) = permute(
              cat({t, flip(t, 5)}, 1)(all, part(0, 3), all, all, all, all), {5, 0, 2, 1, 4, 3});
        }
      });
  const std::int64_t n[6] = {3, 4, 2, 2, 3, 5};
  const Tensor x = iota({3, 4, 2, 2, 3, 5}, DType::i32), y = empty({3, 4, 2, 2, 3, 5}, DType::i32),
               sums = empty({3, 4, 2, 3, 5}, DType::i32),
               turned = empty({5, 3, 2, 4, 3, 2}, DType::i32);
  six(stream(), x, y, sums, turned);
  const auto in = x.to_doubles();
  std::vector<double> more, folded, moved;
  const auto at = [&](std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d,
                      std::int64_t e, std::int64_t f) {
    return in[static_cast<std::size_t>(
        ((((a * n[1] + b) * n[2] + c) * n[3] + d) * n[4] + e) * n[5] + f)];
  };
  for (const double v : in) more.push_back(v + 1);
  for (int a = 0; a < n[0]; ++a)
    for (int b = 0; b < n[1]; ++b)
      for (int d = 0; d < n[3]; ++d)
        for (int e = 0; e < n[4]; ++e)
          for (int f = 0; f < n[5]; ++f) {
            folded.push_back(0);
            for (int c = 0; c < n[2]; ++c)
              for (int k = 0; k <= e; ++k) folded.back() += at(a, b, c, d, k, f);
          }
  for (int f = 0; f < n[5]; ++f)
    for (int a = 0; a < n[0]; ++a)
      for (int c = 0; c < n[2]; ++c)
        for (int b = 0; b < n[1]; ++b)
          for (int e = 0; e < n[4]; ++e)
            for (int d = 0; d < n[3]; ++d) moved.push_back(at(a, b, c, d, e, f));
  expect_equal(y, more);
  expect_equal(sums, folded);
  expect_equal(turned, moved);
}

/// Three warps share products of f32 whose second operand's columns are contiguous: they divide the
/// 48 rows, not the 64 columns.
TEST_P(AnyExtents, ProductsByThreeWarps) {
  const auto chain = kernel("chain", [](In<f32, 2> A, In<f32, 2> B, In<f32, 2> C, Out<f32, 2> Y) {
    for (auto m : grid(rows(Y), 48)) {
      Tile acc = zeros<f32>(48, 64);
      for (auto n : steps(B.cols(), 16))
        acc = dot(dot(A(m, slice(0, 32)), B(slice(0, 32), n)), C(n, slice(0, 64)), acc);
      Y(m, slice(0, 64)) = acc;
    }
  });
  const auto numbers = [&](const Dims& shape, std::uint64_t seed) {
    return Tensor::integers(shape, DType::f32, -2, 3, seed, GetParam());
  };
  const Tensor A = numbers({5, 30}, 1), B = numbers({30, 28}, 2),
               C = numbers({64, 28}, 3).transpose(0, 1), Y = empty({5, 64}, DType::f32);
  chain(stream(), A, B, C, Y);
  const auto a = A.to_doubles(), b = B.to_doubles(), c = C.to_doubles();
  std::vector<double> want(5 * 64);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t j = 0; j < 28; ++j) {
      double inner = 0;
      for (std::size_t k = 0; k < 30; ++k) inner += a[i * 30 + k] * b[k * 28 + j];
      for (std::size_t p = 0; p < 64; ++p) want[i * 64 + p] += inner * c[j * 64 + p];
    }
  expect_equal(Y, want);
}

/// Rings whose slots are not whole vectors: 19 x 11 elements of 4 bytes.
TEST_P(AnyExtents, ProductsOfOddRows) {
  const auto product = kernel("product", [](In<f32, 2> A, In<f32, 2> B, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, 19, 5)) {
      Tile acc = zeros<f32>(19, 5);
      for (auto k : steps(A.cols(), 11)) acc = dot(A(m, k), B(n, k).T(), acc);
      C(m, n) = acc;
    }
  });
  const Tensor A = Tensor::integers({19, 40}, DType::f32, -3, 4, 1, GetParam()),
               B = Tensor::integers({7, 40}, DType::f32, -3, 4, 2, GetParam()),
               C = empty({19, 7}, DType::f32);
  product(stream(), A, B, C);
  const auto a = A.to_doubles(), b = B.to_doubles();
  std::vector<double> want(19 * 7);
  for (std::size_t m = 0; m < 19; ++m)
    for (std::size_t n = 0; n < 7; ++n)
      for (std::size_t k = 0; k < 40; ++k) want[m * 7 + n] += a[m * 40 + k] * b[n * 40 + k];
  expect_equal(C, want);
}

TEST_P(AnyExtents, ScansOfShortAxes) {
  const auto scanned = kernel("scanned", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(x, 277))
      y(i) = cumsum(fill_absent(x(i), 0).reshape({1, 277, 1}), 0).reshape({277}) +
             cumsum(fill_absent(x(i), 0).reshape({277, 1, 1}), 1).reshape({277});
  });
  const Tensor x = iota({277}, DType::f32), y = empty({277}, DType::f32);
  scanned(stream(), x, y);
  std::vector<double> want = x.to_doubles();
  for (double& v : want) v *= 2;
  expect_equal(y, want);
}

/// In loops and branches, with loop-carried tiles.
TEST_P(AnyExtents, Carried) {
  const auto carried = kernel("carried", [](In<f32, 2> x, Out<f32, 2> y) {
    for ([[maybe_unused]] auto i : grid(GridSpace(full<i32>(1)), 1)) {
      auto turned = fill_absent(x(slice(0, 12), slice(0, 20)), 0);
      for (auto step : steps(3, 1))
        if_(step.first() != 1, [&] { turned = turned.T().reshape({12, 20}); });
      y(slice(0, 12), slice(0, 20)) = turned;
    }
  });
  const Tensor x = iota({12, 20}, DType::f32), y = empty({12, 20}, DType::f32);
  carried(stream(), x, y);
  std::vector<double> want = x.to_doubles();
  for (int round = 0; round < 2; ++round) {
    std::vector<double> turned;
    for (std::size_t c = 0; c < 20; ++c)
      for (std::size_t r = 0; r < 12; ++r) turned.push_back(want[r * 20 + c]);
    want = turned;
  }
  expect_equal(y, want);
}

}  // namespace
}  // namespace tegula::any_extents_test
