// Clusters on every available device: reduce-scatter, and split-K in a cluster. Operands are
// small integers, so that sums are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::clusters_test {
using namespace kernels;
namespace {

using test::expect_equal;
using test::product;

class Clusters : public test::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, Clusters, testing::ValuesIn(test::devices()), test::device_name);

// ---- sums ---------------------------------------------------------------------------------------

/// Rows are divided among the CTAs of a cluster; each then has some columns of their sum.
TEST_P(Clusters, SumOverRowsOfAMatrix) {
  for (const int programs : {1, 2, 4, 8}) {
    SCOPED_TRACE(programs);
    const auto sums = kernel("sums", [=](In<f32, 2> x, Out<f32, 1> z) {
      for (auto n : grid(z, 64, cluster(programs))) {
        const Tile rows = (x.dim(0) + (programs - 1)) / programs, first = cluster_rank() * rows;
        Tile sum = zeros<f32>(64);
        for (auto m : steps(first, min(first + rows, x.dim(0)), 1))
          sum = sum + fill_absent(x(m, n), 0);
        z(cluster_slice(n)) = cluster_reduce_scatter(sum, 0);
      }
    });
    const std::int64_t m = 37, n = 200;
    const Tensor x = integers({m, n}, DType::f32, 1), z = empty({n}, DType::f32);
    sums(stream(), x, z);
    std::vector<double> want(static_cast<std::size_t>(n));
    const auto values = x.to_doubles();
    for (std::size_t i = 0; i < values.size(); ++i) want[i % want.size()] += values[i];
    expect_equal(z, want);
  }
}

/// Two reduce-scatters in one program, of different types, along different dimensions; the second
/// reuses the memory of the first.
TEST_P(Clusters, TwoSums) {
  const auto both = kernel("both", [](In<i32, 2> x, Out<i32, 2> down, Out<f32, 2> across) {
    for (auto [m, n] : grid(x, 32, 64, cluster(4))) {
      const Tile t = x(m, n) * (cluster_rank() + 1);
      down(cluster_slice(m), n) = cluster_reduce_scatter(t, 0);
      across(m, cluster_slice(n)) = cluster_reduce_scatter(cast<f32>(t), 1);
    }
  });
  const std::int64_t m = 45, n = 100;
  const Tensor x = integers({m, n}, DType::i32, 1), down = empty({m, n}, DType::i32),
               across = empty({m, n}, DType::f32);
  both(stream(), x, down, across);
  auto want = x.to_doubles();
  for (double& v : want) v *= 10;
  expect_equal(down, want);
  expect_equal(across, want);
}

/// Programs whose tiles are absent at different places: those count as 0, and what the receiver
/// lacks is not stored.
TEST_P(Clusters, AbsentForOthers) {
  const auto shifted = kernel("shifted", [](In<f32, 1> x, Out<f32, 1> z) {
    z.partial();
    for (auto n : grid(z, 64, cluster(2))) {
      const Index from = n.shifted(cluster_rank() * 40);
      z(cluster_slice(n)) = cluster_reduce_scatter(exp2(x(from)), 0);
    }
  });
  const std::int64_t n = 100;
  const Tensor x = integers({n}, DType::f32, 1), z = Tensor::zeros({n}, DType::f32, GetParam());
  shifted(stream(), x, z);
  const auto v = x.to_doubles(), got = z.to_doubles();
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = [&](std::int64_t j) {
      return j < n ? std::exp2(v[static_cast<std::size_t>(j)]) : 0.0;
    };
    const bool received_by_second = i % 64 >= 32;
    const bool lacks = received_by_second && i + 40 >= n;
    const double want = lacks ? 0.0 : at(i) + at(i + 40);
    EXPECT_EQ(got[static_cast<std::size_t>(i)], want) << i;
  }
}

// ---- folds --------------------------------------------------------------------------------------

/// Extremes and sums of rows that the programs of a cluster hold together, of whole rows and of
/// some at once; what is absent for one of them counts nowhere, and all get the same.
TEST_P(Clusters, FoldsOfRowsHeldTogether) {
  for (const int programs : {1, 2, 4, 8}) {
    SCOPED_TRACE(programs);
    const auto folds = kernel("folds", [=](In<i32, 2> x, Out<i32, 2> y, Out<i32, 2> whole) {
      for (auto m : grid(rows(y), 4, cluster(programs))) {
        const Tile v = x(m, slice(cluster_rank() * 32, 32));
        const Tile top = cluster_max(max(v, axis(1))), least = cluster_min(min(v, axis(1))),
                   total = cluster_sum(sum(v, axis(1))), tops = cluster_max(v);
        if_(cluster_rank() == programs - 1, [&] {
          y(m, 0) = top;
          y(m, 1) = least;
          y(m, 2) = total;
          whole(m, slice(0, 32)) = tops;
        });
      }
    });
    const std::int64_t m = 9, n = programs * 32 - 13;
    const Tensor x = integers({m, n}, DType::i32, 1), y = empty({m, 3}, DType::i32),
                 whole = empty({m, 32}, DType::i32);
    folds(stream(), x, y, whole);
    const auto v = x.to_doubles();
    std::vector<double> want, most;
    for (std::int64_t r = 0; r < m; ++r) {
      const auto row =
          std::span(v).subspan(static_cast<std::size_t>(r * n), static_cast<std::size_t>(n));
      want.push_back(*std::ranges::max_element(row));
      want.push_back(*std::ranges::min_element(row));
      want.push_back(std::accumulate(row.begin(), row.end(), 0.0));
      for (std::size_t c = 0; c < 32; ++c) {
        double all = -2147483648.0;
        for (std::size_t i = c; i < row.size(); i += 32) all = std::max(all, row[i]);
        most.push_back(all);
      }
    }
    expect_equal(y, want);
    expect_equal(whole, most);
  }
}

/// Softmax's pair by a function, next to scalars of another type, and the values of each program.
TEST_P(Clusters, PairsByAFunction) {
  const auto pairs = kernel("pairs", [](In<f32, 1> x, Out<f32, 2> y, Out<i64, 2> ranks) {
    for (auto r : grid(rows(y), 1, cluster(4))) {
      const Tile v = x(slice(cluster_rank() * 8, 8)), top = max(v);
      const std::array row =
          cluster_reduce(std::array{top, sum(exp2(v - top))}, [](const auto& a, const auto& b) {
            const Tile t = max(a[0], b[0]);
            return std::array{t, a[1] * exp2(a[0] - t) + b[1] * exp2(b[0] - t)};
          });
      const Tile tens = cluster_gather(cast<i64>(cluster_rank()) * 10);
      if_(cluster_rank() == 2, [&] {
        y(r, 0) = row[0];
        y(r, 1) = row[1];
        ranks(r, slice(0, 4)) = tens;
      });
    }
  });
  std::vector<f32> values(32);
  for (std::size_t i = 0; i < 32; ++i) values[i] = static_cast<f32>(i * 5 % 32 / 4);
  double total = 0;
  for (const f32 v : values) total += std::exp2(v - 7);
  const Tensor y = empty({2, 2}, DType::f32), ranks = empty({2, 4}, DType::i64);
  pairs(stream(), Tensor::from(values, {32}, GetParam()), y, ranks);
  expect_equal(y, {7, total, 7, total});
  expect_equal(ranks, {0, 10, 20, 30, 0, 10, 20, 30});
}

/// Narrow types, extents that are not powers of two, and several exchanges whose memory is the
/// same.
TEST_P(Clusters, GatheredTilesOfAnyType) {
  const auto gathers =
      kernel("gathers", [](In<bf16, 2> x, Out<bf16, 3> y, Out<u8, 2> small, Out<f32, 1> last) {
        for (auto r : grid(GridSpace({1}), 1, cluster(2))) {
          const Tile v = x(slice(cluster_rank() * 3, 3), slice(0, 20)), all = cluster_gather(v);
          if_(cluster_rank() == 0, [&] { y(slice(0, 2), slice(0, 3), slice(0, 20)) = all; });
          const Tile bytes = cluster_gather(cast<u8>(arange(5)) + cast<u8>(cluster_rank()));
          if_(cluster_rank() == 1, [&] { small(slice(0, 2), slice(0, 5)) = bytes; });
          const Tile most = cluster_max(cast<f32>(max(max(all, axis(2)), axis(1))));
          if_(cluster_rank() == 1, [&] { last(slice(0, 2)) = most + cast<f32>(r.first()); });
        }
      });
  const Tensor x = integers({6, 20}, DType::bf16, 3), y = empty({2, 3, 20}, DType::bf16),
               small = empty({2, 5}, DType::u8), last = empty({2}, DType::f32);
  gathers(stream(), x, y, small, last);
  const auto v = x.to_doubles();
  expect_equal(y, v);
  expect_equal(small, {0, 1, 2, 3, 4, 1, 2, 3, 4, 5});
  expect_equal(last, {*std::max_element(v.begin(), v.begin() + 60),
                      *std::max_element(v.begin() + 60, v.end())});
}

/// Absent elements arrive as 0, from one program as from several.
TEST_P(Clusters, GatheredTilesHaveZerosForAbsentElements) {
  const Tensor x = Tensor::full({24}, -3, DType::f32, GetParam());
  for (const int ctas : {1, 2}) {
    const auto tops = kernel("tops", [ctas](In<f32, 1> x, Out<f32, 1> y) {
      for (auto r : grid(y, 1, cluster(ctas))) {
        const Tile top = max(cluster_gather(x(slice(0, 32))).reshape({32 * ctas}));
        if_(cluster_rank() == 0, [&] { y(r) = top; });
      }
    });
    const Tensor y = empty({2}, DType::f32);
    tops(stream(), x, y);
    expect_equal(y, {0, 0});
  }
}

// ---- products -----------------------------------------------------------------------------------

/// The kernel of docs/clusters.md. Slices of k may be ragged or empty.
TEST_P(Clusters, SplitKInTheLanguage) {
  for (const int ctas : {1, 2, 4, 8}) {
    const auto dense = kernel("dense", [ctas](In<bf16, 2> A, In<bf16, 2> B, In<f32, 1> bias,
                                              In<f32, 2> residual, Out<f32, 2> C) {
      for (auto [m, n] : grid(C, 64, 64, cluster(ctas))) {
        auto acc = zeros<f32>(64, 64);
        for (auto k : steps(A.cols(), 64).chunk(cluster_rank(), ctas))
          acc = dot(A(m, k), B(k, n), acc);
        const Tile sum = cluster_reduce_scatter(acc, axis(0));
        const Index mine = cluster_slice(m);
        C(mine, n) = max(0, sum + expand(bias(n), 0)) + residual(mine, n);
      }
    });
    for (const std::int64_t k : {0, 8, 72, 520}) {
      SCOPED_TRACE(testing::Message() << ctas << " CTAs, k " << k);
      const std::int64_t m = 136, n = 88;
      const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                   bias = integers({n}, DType::f32, 3), residual = integers({m, n}, DType::f32, 4),
                   C = empty({m, n}, DType::f32);
      dense(stream(), A, B, bias, residual, C);
      auto want = product(A, B);
      const auto b = bias.to_doubles(), r = residual.to_doubles();
      for (std::size_t i = 0; i < want.size(); ++i)
        want[i] = std::max(want[i] + b[i % b.size()], 0.0) + r[i];
      expect_equal(C, want);
    }
  }
}

MatmulConfig in_cluster(int bm, int bn, int bk, int splits, bool swap_ab = false) {
  return {bm, bn, bk, SplitK::cluster, splits, swap_ab};
}

TEST_P(Clusters, MatmulsOfEveryType) {
  using enum DType;
  struct Types {
    DType operands, result;
    int bk;
  };
  const std::int64_t m = 72, n = 80, k = 528;
  for (const Types t : {Types{bf16, bf16, 64},
                        {bf16, f32, 64},
                        {f16, f16, 64},
                        {f32, f32, 16},
                        {f8e4m3, bf16, 128},
                        {f8e5m2, f32, 128},
                        {i8, i32, 128},
                        {i8, f32, 128},
                        {u8, i32, 128}})
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(testing::Message()
                   << name(t.operands) << " to " << name(t.result) << (transposed ? " NT" : " NN"));
      const Tensor A = integers({m, k}, t.operands, 1),
                   B = integers({k, n}, t.operands, 2, transposed), C = empty({m, n}, t.result);
      matmul(stream(), A, B, C, in_cluster(64, 64, t.bk, 2));
      expect_equal(C, product(A, B));
    }
  const Tensor A = integers({m, k}, f32, 1), B = integers({k, n}, f32, 2, true),
               C = empty({m, n}, f32);
  matmul(stream(), A, B, C, in_cluster(64, 64, 32, 4), {.tf32 = true});
  expect_equal(C, product(A, B));
  const Tensor A8 = integers({m, k}, f8e4m3, 1), B8 = integers({k, n}, f8e4m3, 2, true),
               C8 = empty({m, n}, f32);
  matmul(stream(), A8, B8, C8, in_cluster(64, 64, 128, 2), {.fp32_promotion = true});
  expect_equal(C8, product(A8, B8));
}

/// Slices of every height, odd widths, operands swapped, rows that TMA cannot load, slices of k
/// that are empty, ragged, or all of it.
TEST_P(Clusters, MatmulsOfEveryConfiguration) {
  for (const std::int64_t k : {1096, 200, 65, 0})
    for (const MatmulConfig& c :
         {in_cluster(64, 64, 64, 2), in_cluster(64, 64, 64, 4), in_cluster(64, 128, 64, 8),
          in_cluster(128, 64, 64, 2), in_cluster(128, 96, 64, 8), in_cluster(64, 80, 64, 4),
          in_cluster(64, 24, 64, 2), in_cluster(16, 64, 64, 2, true),
          in_cluster(8, 128, 64, 4, true), in_cluster(24, 64, 128, 8, true)}) {
      SCOPED_TRACE(c.str() + ", k " + std::to_string(k));
      const Tensor A = integers({77, k}, DType::bf16, 1), B = integers({k, 152}, DType::bf16, 2),
                   C = empty({77, 152}, DType::bf16);
      matmul(stream(), A, B, C, c);
      expect_equal(C, product(A, B));
    }
}

TEST_P(Clusters, OddShapes) {
  for (const Dims& s :
       {Dims{1, 1, 1}, Dims{13, 9, 333}, Dims{64, 64, 128}, Dims{129, 65, 640}, Dims{0, 8, 8}}) {
    SCOPED_TRACE(s.str());
    const Tensor A = integers({s[0], s[2]}, DType::bf16, 1),
                 B = integers({s[2], s[1]}, DType::bf16, 2), C = empty({s[0], s[1]}, DType::f32);
    matmul(stream(), A, B, C, in_cluster(64, 64, 64, 4));
    expect_equal(C, product(A, B));
  }
}

/// The epilogue sees the rows and columns that are the program's own.
TEST_P(Clusters, Epilogues) {
  const auto fused =
      fused_matmul<bf16, f32>([](Tile acc, Index m, Index n, In<bf16, 1> bias, In<f32, 1> row_scale,
                                 In<f32, 2> before, Scalar<f32> alpha) {
        return max(acc * expand(row_scale(m), 1) * alpha + expand(cast<f32>(bias(n)), 0), 0.0f) +
               before(m, n);
      });
  const std::int64_t m = 136, n = 88, k = 1032;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               C = empty({m, n}, DType::f32), bias = integers({n}, DType::bf16, 3),
               scale = integers({m}, DType::f32, 4), before = integers({m, n}, DType::f32, 5);
  auto want = product(A, B);
  const auto b = bias.to_doubles(), s = scale.to_doubles(), r = before.to_doubles();
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double& v = want[static_cast<std::size_t>(i * n + j)];
      v = std::max(v * s[static_cast<std::size_t>(i)] * 0.5 + b[static_cast<std::size_t>(j)], 0.0) +
          r[static_cast<std::size_t>(i * n + j)];
    }
  for (const MatmulConfig& c : {in_cluster(64, 64, 64, 4), in_cluster(32, 64, 64, 2, true)}) {
    SCOPED_TRACE(c.str());
    fused.run(c, stream(), A, B, C, bias, scale, before, 0.5f);
    expect_equal(C, want);
  }
}

}  // namespace
}  // namespace tegula::clusters_test
