// Two back-to-back MMAs an iteration, the second skewed: work that a loop does in its first
// iteration only, where that iteration is peeled (the second MMA's operand itself, rows next to it,
// and both where there is no other iteration), and other readers of that operand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::first_step_test {
namespace {

class PeeledIteration : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, PeeledIteration, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(PeeledIteration, SelectsOperands) {
  const auto twice = kernel(
      "twice", [](In<bf16, 2> Q, In<bf16, 2> K, In<bf16, 2> V, Out<f32, 2> O, Out<f32, 1> Top) {
        const Index d = slice(0, 64);
        for (auto m : grid(rows(Q), 128)) {
          const Tile q = Q(m, d);
          Tile sum = zeros<f32>(128, 64), top = zeros<f32>(128);
          for (auto n : steps(K.rows(), 64)) {
            const Tile s = dot(q, fill_absent(K(n, d), 0).T()), first = n.first() == 0;
            top = where(first, max(s, axis(1)), top + 1.0f);
            const Tile p = where(first, cast<bf16>(s), cast<bf16>(s * 2.0f));
            sum = dot(p, fill_absent(V(n, d), 0), sum);
          }
          O(m, d) = sum;
          Top(m) = top;
        }
      });
  const Stream stream(GetParam());
  for (const std::int64_t keys : {64, 128, 300}) {
    SCOPED_TRACE(keys);
    // Elements are 0 and 1, so that halves hold all sums.
    const auto bits = [&](std::int64_t n, std::uint64_t seed) {
      return Tensor::integers({n, 64}, DType::bf16, 0, 2, seed, GetParam());
    };
    const Tensor Q = bits(128, 1), K = bits(keys, 2), V = bits(keys, 3);
    const Tensor O = Tensor::zeros({128, 64}, DType::f32, GetParam()),
                 Top = Tensor::zeros({128}, DType::f32, GetParam());
    twice(stream, Q, K, V, O, Top);
    const std::int64_t further = (keys - 1) / 64;  // steps
    const auto q = Q.to_doubles(), k = K.to_doubles(), v = V.to_doubles(), o = O.to_doubles(),
               top = Top.to_doubles();
    for (std::size_t r = 0; r < 128; ++r) {
      double largest = 0;
      std::vector<double> want(64);
      for (std::size_t n = 0; n < static_cast<std::size_t>(keys); ++n) {
        double s = 0;
        for (std::size_t i = 0; i < 64; ++i) s += q[r * 64 + i] * k[n * 64 + i];
        if (n < 64) largest = std::max(largest, s);
        for (std::size_t i = 0; i < 64; ++i) want[i] += (n < 64 ? s : 2 * s) * v[n * 64 + i];
      }
      ASSERT_EQ(top[r], largest + static_cast<double>(further)) << r;
      for (std::size_t i = 0; i < 64; ++i) ASSERT_EQ(o[r * 64 + i], want[i]) << r << ", " << i;
    }
  }
}

/// After the first iteration nothing needs the first MMA, which is not moved.
TEST_P(PeeledIteration, OnlyItMultiplies) {
  const auto once = kernel("once", [](In<bf16, 2> Q, In<bf16, 2> K, In<bf16, 2> V, Out<f32, 2> O) {
    const Index d = slice(0, 64);
    for (auto m : grid(rows(Q), 128)) {
      const Tile q = Q(m, d);
      Tile sum = zeros<f32>(128, 64);
      for (auto n : steps(K.rows(), 64)) {
        const Tile s = dot(q, fill_absent(K(n, d), 0).T());
        const Tile p = where(n.first() == 0, cast<bf16>(s), full<bf16>(1.0f, 128, 64));
        sum = dot(p, fill_absent(V(n, d), 0), sum);
      }
      O(m, d) = sum;
    }
  });
  const auto ones = [&](std::int64_t n) {
    return Tensor::full({n, 64}, 1, DType::bf16, GetParam());
  };
  const Tensor O = Tensor::zeros({128, 64}, DType::f32, GetParam());
  once(Stream(GetParam()), ones(128), ones(192), ones(192), O);
  for (const double x : O.to_doubles()) ASSERT_EQ(x, 64 * 64 + 128);
}

/// The zeros of absent elements are put in late for the second MMA, but not where they are added
/// up.
TEST_P(PeeledIteration, OperandsOfTheSecondMmaAreAddedUp) {
  const auto softmax = kernel(
      "added", [](In<bf16, 2> Q, In<bf16, 2> K, In<bf16, 2> V, Out<f32, 2> O, Out<f32, 1> Sum) {
        const Index d = slice(0, 64);
        for (auto m : grid(rows(Q), 128)) {
          const Tile q = Q(m, d);
          Tile out = zeros<f32>(128, 64), sums = zeros<f32>(128);
          for (auto n : steps(K.rows(), 64)) {
            const Tile p = fill_absent(exp2(dot(q, K(n, d).T())), 0);
            sums = sums + sum(p, 1);
            out = dot(cast<bf16>(p), V(n, d), out);
          }
          O(m, d) = out;
          Sum(m) = sums;
        }
      });
  const Stream stream(GetParam());
  // Powers of 2 by scores of 0 and 1, whose sums are exact.
  const auto first_column = [&](std::int64_t n, std::uint64_t seed) {
    const Tensor t = Tensor::zeros({n, 64}, DType::bf16, GetParam());
    t.slice(1, 0, 1).copy_from(Tensor::integers({n, 1}, DType::bf16, 0, 2, seed, GetParam()));
    return t;
  };
  const Tensor Q = first_column(200, 1), K = first_column(230, 2),
               V = Tensor::full({230, 64}, 1, DType::bf16, GetParam());
  const Tensor O = Tensor::zeros({200, 64}, DType::f32, GetParam()),
               Sum = Tensor::zeros({200}, DType::f32, GetParam());
  softmax(stream, Q, K, V, O, Sum);
  const auto q = Q.to_doubles(), k = K.to_doubles(), o = O.to_doubles(), sum = Sum.to_doubles();
  for (std::size_t r = 0; r < 200; ++r) {
    double want = 0;
    for (std::size_t n = 0; n < 230; ++n) want += std::exp2(q[r * 64] * k[n * 64]);
    ASSERT_EQ(sum[r], want) << r;
    ASSERT_EQ(o[r * 64], want) << r;
  }
}

}  // namespace
}  // namespace tegula::first_step_test
