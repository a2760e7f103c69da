// Tiles of few rows, computed as their transposes (plan field `swap_ab`), on every available
// device. Operands are small integers, so that sums are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "support/env.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::swap_ab_test {
namespace {

using test::expect_equal;
using test::product;

/// The eight-line kernel.
template <class T, class O>
auto matmul_of(int bm, int bn, int bk) {
  return kernel("few_rows", [=](In<T, 2> A, In<T, 2> B, Out<O, 2> C) {
    for (auto [m, n] : grid(C, bm, bn)) {
      auto acc = zeros<Accumulator<T>>(bm, bn);
      for (auto k : steps(A.cols(), bk)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

class SwappedTiles : public test::OnDevice {
 protected:
  /// Nothing is compiled for the cpu, and wgmma is not everywhere.
  void expect_swapped(const std::string& said, bool is_swapped = true) const {
    if (GetParam().kind == DeviceKind::cpu) return;
    if (GetParam().kind == DeviceKind::cuda && said.find("sm_90") == std::string::npos) return;
    EXPECT_NE(said.find(is_swapped ? "swap_ab=1 wgmma=1" : "swap_ab=0"), std::string::npos) << said;
    EXPECT_EQ(said.find("applied: dot by wgmma") != std::string::npos, is_swapped) << said;
  }
  template <class T, class O>
  void check(int bm, int bn, int bk, bool a_columns = false, bool b_columns = false) {
    SCOPED_TRACE(testing::Message() << bm << "x" << bn << "x" << bk);
    const auto kernel = matmul_of<T, O>(bm, bn, bk);
    const std::int64_t unit =
        16 / size_bytes(dtype_of<T>);  // elements of 16 bytes, the granule of TMA
    for (const auto& [m, n, k] :
         {std::tuple<std::int64_t, std::int64_t, std::int64_t>{bm, 320, 33 * unit},
          {40, 200, 17 * unit},
          {1, 8, unit}}) {
      SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k);
      // Rows of whole 16 bytes; the part that is used ends within them.
      const Tensor A = integers({(m + 15) / 16 * 16, k}, dtype_of<T>, 1, a_columns).slice(0, 0, m),
                   B = integers({k, n}, dtype_of<T>, 2, b_columns), C = empty({m, n}, dtype_of<O>);
      kernel(stream(), A, B, C);
      expect_equal(C, product(A, B));
    }
    expect_swapped(kernel.explain());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, SwappedTiles, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(SwappedTiles, EveryNumberOfRows) {
  for (const int bm : {8, 16, 24, 32, 40}) check<bf16, f32>(bm, 128, 64);
}
TEST_P(SwappedTiles, TypesAndColumns) {
  check<f16, f16>(16, 64, 64);
  check<bf16, bf16>(16, 192, 64);
  check<bf16, f32>(32, 256, 32);
  check<f8e4m3, f32>(16, 128, 64, false, true);
  check<i8, i32>(16, 64, 64, false, true);
}
TEST_P(SwappedTiles, EachMajor) {
  for (const bool b_columns : {false, true}) check<bf16, f32>(16, 128, 64, false, b_columns);
  // Columns of A in whole swizzles.
  for (const bool b_columns : {false, true}) check<bf16, f32>(32, 128, 64, true, b_columns);
}

/// Epilogue operands keep their places: two matmuls of one A, a bias, a matrix, a gate.
TEST_P(SwappedTiles, EpilogueOperands) {
  const auto gated = kernel("gated", [](In<bf16, 2> A, In<bf16, 2> B, In<bf16, 2> G,
                                        In<f32, 1> bias, In<bf16, 2> R, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, 16, 64)) {
      auto up = zeros<f32>(16, 64), gate = zeros<f32>(16, 64);
      for (auto k : steps(A.cols(), 64)) {
        up = dot(A(m, k), B(k, n), up);
        gate = dot(A(m, k), G(k, n), gate);
      }
      C(m, n) = up * max(0, gate) + expand(bias(n), 0) + cast<f32>(R(m, n));
    }
  });
  const std::int64_t m = 24, n = 136, k = 72;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               G = integers({k, n}, DType::bf16, 3), bias = integers({n}, DType::f32, 4),
               R = integers({m, n}, DType::bf16, 5), C = empty({m, n}, DType::f32);
  gated(stream(), A, B, G, bias, R, C);
  const auto up = product(A, B), gate = product(A, G), b = bias.to_doubles(), r = R.to_doubles();
  std::vector<double> want(up.size());
  for (std::size_t i = 0; i < want.size(); ++i)
    want[i] = up[i] * std::max(gate[i], 0.0) + b[i % static_cast<std::size_t>(n)] + r[i];
  expect_equal(C, want);
  expect_swapped(gated.explain());
}

/// Sums that do not begin with zeros, and a loop around the loop.
TEST_P(SwappedTiles, AccumulatorsThatStartFromValues) {
  const auto added = kernel("added", [](In<bf16, 3> A, In<bf16, 3> B, InOut<f32, 2> C) {
    for (auto [m, n] : grid(C, 16, 128)) {
      Tile acc = C(m, n);
      for (auto e : steps(A.dim(0), 1))
        for (auto k : steps(A.dim(2), 64)) acc = dot(A(e, m, k), B(e, k, n), acc);
      C(m, n) = acc;
    }
  });
  const std::int64_t m = 16, n = 136, k = 72;
  const Tensor A = integers({2, m, k}, DType::bf16, 1), B = integers({2, k, n}, DType::bf16, 2),
               C = Tensor::full({m, n}, 3, DType::f32, GetParam());
  added(stream(), A, B, C);
  const auto both = product(A, B);
  std::vector<double> want(static_cast<std::size_t>(m * n));
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = 3 + both[i] + both[want.size() + i];
  expect_equal(C, want);
}

/// MMAs stay as they are where the accumulators are read within the loop, TMA does not take an
/// operand, or the transposes would have no more rows.
TEST_P(SwappedTiles, NotEverywhere) {
  const auto looked_at = kernel("looked_at", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, 16, 64)) {
      auto acc = zeros<f32>(16, 64);
      for (auto k : steps(A.cols(), 64)) acc = max(-1000, dot(A(m, k), B(k, n), acc));
      C(m, n) = acc;
    }
  });
  const std::int64_t m = 16, n = 72, k = 72;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               C = empty({m, n}, DType::f32);
  looked_at(stream(), A, B, C);
  expect_equal(C, product(A, B));
  expect_swapped(looked_at.explain(), false);

  // A branch round a mainloop becomes a bound of its trips.
  const auto in_branch = kernel("in_branch", [](In<bf16, 2> a, In<bf16, 2> b, InOut<f32, 2> c) {
    for (auto [r, s] : grid(c, 16, 64)) {
      auto acc = zeros<f32>(16, 64);
      if_(a.rows() > 3, [&] {
        for (auto k : steps(a.cols(), 64)) acc = dot(a(r, k), b(k, s), acc);
      });
      c(r, s) = acc;
    }
  });
  in_branch(stream(), A, B, C);
  expect_equal(C, product(A, B));
  expect_swapped(in_branch.explain(), true);

  const auto odd = matmul_of<bf16, f32>(16, 64, 64), square = matmul_of<bf16, f32>(16, 16, 64);
  const Tensor O = integers({m, k + 1}, DType::bf16, 1).slice(1, 0, k);
  odd(stream(), O, B, C);
  expect_equal(C, product(O, B));
  expect_swapped(odd.explain(), false);
  square(stream(), A, B, C);
  expect_equal(C, product(A, B));
  expect_swapped(square.explain(), false);
}

/// As a changed plan has it.
TEST_P(SwappedTiles, AsRequested) {
  const std::int64_t m = 72, n = 136, k = 72;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               C = empty({m, n}, DType::f32);
  for (const bool asked : {false, true})
    for (const int bm : {16, 64}) {
      SCOPED_TRACE(testing::Message() << "swap_ab=" << asked << ", " << bm << " rows");
      Env changed = env();
      changed.plan = asked ? "swap_ab=1" : "swap_ab=0";
      const EnvOverride scope(changed);
      const auto kernel = matmul_of<bf16, f32>(bm, 64, 64);
      kernel(stream(), A, B, C);
      expect_equal(C, product(A, B));
      if (GetParam().kind != DeviceKind::sim) continue;
      EXPECT_NE(kernel.explain().find(changed.plan), std::string::npos) << kernel.explain();
    }
}

}  // namespace
}  // namespace tegula::swap_ab_test
