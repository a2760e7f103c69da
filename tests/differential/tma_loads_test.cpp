// Tiles that a mainloop loads by TMA for other uses than MMA operands (grid(..,
// prefer({.tma_aux_loads = true})): the same bits as with loads by threads, with one MMA and two.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "support/env.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/remark_count.h"

namespace tegula::tma_loads_test {
namespace {

class TmaLoads : public testing::TestWithParam<Device> {
 protected:
  /// Small integers, so that sums are exact in any order; rows are in longer ones.
  static Tensor numbers(std::int64_t rows, std::int64_t columns, DType dtype, std::uint64_t seed,
                        int high = 3) {
    const std::int64_t row = (columns + 15) / 16 * 16;
    return Tensor::integers({rows, row}, dtype, 0, high, seed, GetParam()).slice(1, 0, columns);
  }
  static void expect_brought(const std::string& said, int times) {
    if (GetParam().kind == DeviceKind::cpu) return;  // compiles nothing
    if (GetParam().kind == DeviceKind::cuda && said.find("wgmma=1") == std::string::npos) return;
    EXPECT_EQ(test::remark_count(said, "loaded by TMA"), times) << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, TmaLoads, testing::ValuesIn(test::devices()), test::device_name);

/// max(q k^T + bias, 0) v, with the bias as a box, or looked up at each pair.
template <class T>
auto biased(bool is_looked_up, bool by_tma) {
  return kernel("biased",
                [=](In<bf16, 2> Q, In<bf16, 2> K, In<bf16, 2> V, In<T, 2> B, Out<f32, 2> O) {
                  const Index d = slice(0, 64);
                  for (auto m : grid(rows(Q), 128)) {
                    const Tile q = Q(m, d);
                    Tile sum = zeros<f32>(128, 64);
                    for (auto n : steps(K.rows(), 64)) {
                      const Tile bias = is_looked_up ? Tile(B(expand(m, 1), expand(n, 0)))
                                                     : Tile(fill_absent(B(m, n), 0));
                      const Tile s = dot(q, fill_absent(K(n, d), 0).T()) + cast<f32>(bias);
                      sum = dot(cast<bf16>(max(s, 0.0f)), fill_absent(V(n, d), 0), sum);
                    }
                    O(m, d) = sum;
                  }
                })
      .prefer({.tma_aux_loads = by_tma});
}

template <class T>
void expect_biased(
    Device device, std::int64_t queries, std::int64_t keys,
    const std::function<Tensor(std::int64_t, std::int64_t, DType, std::uint64_t)>& of,
    const std::function<void(const std::string&, int)>& expect_brought) {
  SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << ", " << queries << " x " << keys);
  const Tensor Q = of(queries, 64, DType::bf16, 1), K = of(keys, 64, DType::bf16, 2),
               V = of(keys, 64, DType::bf16, 3), B = of(queries, keys, dtype_of<T>, 4);
  const auto q = Q.to_doubles(), k = K.to_doubles(), v = V.to_doubles(), b = B.to_doubles();
  const auto rows = static_cast<std::size_t>(queries), columns = static_cast<std::size_t>(keys);
  std::vector<double> want(rows * 64);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) {
      double s = b[i * columns + j];
      for (std::size_t c = 0; c < 64; ++c) s += q[i * 64 + c] * k[j * 64 + c];
      for (std::size_t c = 0; c < 64; ++c) want[i * 64 + c] += s * v[j * 64 + c];
    }
  for (const bool is_looked_up : {false, true})
    for (const bool by_tma : {false, true}) {
      const Tensor O = Tensor::full({queries, 64}, NAN, DType::f32, device);
      const auto k2 = biased<T>(is_looked_up, by_tma);
      k2(Stream(device), Q, K, V, B, O);
      ASSERT_EQ(O.to_doubles(), want) << is_looked_up << by_tma;
      expect_brought(k2.explain(), by_tma ? 3 : 2);
    }
}

TEST_P(TmaLoads, WithTwoMmas) {
  const auto of = [](std::int64_t rows, std::int64_t columns, DType dtype, std::uint64_t seed) {
    return numbers(rows, columns, dtype, seed, 2);
  };
  for (const auto& [queries, keys] : {std::pair{1, 1}, {128, 64}, {200, 129}, {300, 330}}) {
    expect_biased<bf16>(GetParam(), queries, keys, of, expect_brought);
    expect_biased<f16>(GetParam(), queries, keys, of, expect_brought);
    expect_biased<f32>(GetParam(), queries, keys, of, expect_brought);
    expect_biased<i8>(GetParam(), queries, keys, of, expect_brought);
    expect_biased<i64>(GetParam(), queries, keys, of, expect_brought);
    if (HasFatalFailure()) return;
  }
}

/// With other plans: tiles of one warpgroup, and programs that share operands.
TEST_P(TmaLoads, OtherPlans) {
  const auto of = [](std::int64_t rows, std::int64_t columns, DType dtype, std::uint64_t seed) {
    return numbers(rows, columns, dtype, seed, 2);
  };
  for (const char* plan : {"producer_warps=0 consumer_registers=0", "persistent=0", "stages=2",
                           "warp_scheduler_barrier=0", "multicast=1",
                           "persistent=0 producer_warps=0 consumer_registers=0 stages=2"}) {
    SCOPED_TRACE(plan);
    Env changed = env();
    changed.plan = plan;
    const EnvOverride scope(changed);
    expect_biased<bf16>(GetParam(), 300, 330, of, expect_brought);
    if (HasFatalFailure()) return;
  }
}

/// Ping-pong: where a warpgroup skips a tile, its auxiliary ring skips it, too.
TEST_P(TmaLoads, Pingpong) {
  const auto weighted = [](bool by_tma) {
    return kernel("weighted",
                  [=](In<bf16, 2> A, In<bf16, 2> B, In<f32, 2> W, Out<f32, 2> C) {
                    for (auto [m, n] : grid(C, 64, 64)) {
                      Tile sum = zeros<f32>(64, 64);
                      for (auto k : steps(A.cols(), 64))
                        sum = sum + dot(fill_absent(A(m, k), 0), fill_absent(B(k, n), 0)) *
                                        fill_absent(W(m, k), 0);
                      C(m, n) = sum;
                    }
                  })
        .prefer({.tma_aux_loads = by_tma, .pingpong = true});
  };
  const Tensor A = numbers(460, 200, DType::bf16, 1), B = numbers(200, 200, DType::bf16, 2),
               W = numbers(460, 200, DType::f32, 3);
  std::vector<double> before;
  for (const bool by_tma : {false, true}) {
    const Tensor C = Tensor::full({460, 200}, NAN, DType::f32, GetParam());
    const auto k = weighted(by_tma);
    k(Stream(GetParam()), A, B, W, C);
    if (by_tma) {
      EXPECT_EQ(C.to_doubles(), before);
    }
    before = C.to_doubles();
    expect_brought(k.explain(), by_tma ? 3 : 2);
    if (GetParam().kind == DeviceKind::sim) {
      EXPECT_NE(k.explain().find("pingpong=1"), std::string::npos) << k.explain();
    }
  }
}

/// A is computed of two boxes, which share a ring; the second is used first.
TEST_P(TmaLoads, OperandsThatAreComputed) {
  const auto scaled = [](bool by_tma) {
    return kernel("scaled",
                  [=](In<bf16, 2> A, In<bf16, 2> S, In<bf16, 2> B, Out<f32, 2> C) {
                    for (auto [m, n] : grid(C, 128, 64)) {
                      Tile sum = zeros<f32>(128, 64);
                      for (auto k : steps(A.cols(), 64)) {
                        const Tile a = fill_absent(A(m, k), 0), s = fill_absent(S(m, k), 0);
                        const Tile shifted = cast<f32>(s) + 1.0f;
                        sum = dot(cast<bf16>(shifted * cast<f32>(a)), fill_absent(B(k, n), 0), sum);
                      }
                      C(m, n) = sum;
                    }
                  })
        .prefer({.tma_aux_loads = by_tma});
  };
  for (const std::int64_t depth : {64, 72, 333}) {
    SCOPED_TRACE(depth);
    const Tensor A = numbers(150, depth, DType::bf16, 1), S = numbers(150, depth, DType::bf16, 2),
                 B = numbers(depth, 100, DType::bf16, 3);
    std::vector<double> before;
    for (const bool by_tma : {false, true}) {
      const Tensor C = Tensor::full({150, 100}, NAN, DType::f32, GetParam());
      const auto k = scaled(by_tma);
      k(Stream(GetParam()), A, S, B, C);
      const auto a = A.to_doubles(), s = S.to_doubles(), b = B.to_doubles(), c = C.to_doubles();
      for (std::size_t i = 0; i < 150; ++i)
        for (std::size_t j = 0; j < 100; ++j) {
          double want = 0;
          const auto d = static_cast<std::size_t>(depth);
          for (std::size_t x = 0; x < d; ++x)
            want += a[i * d + x] * (s[i * d + x] + 1) * b[x * 100 + j];
          ASSERT_EQ(c[i * 100 + j], want) << by_tma << ": " << i << ", " << j;
        }
      expect_brought(k.explain(), by_tma ? 3 : 1);
    }
  }
}

}  // namespace
}  // namespace tegula::tma_loads_test
