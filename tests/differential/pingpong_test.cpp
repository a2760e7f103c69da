// Ping-pong on every available device. Operands are small integers, so that sums are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "support/env.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::pingpong_test {
using namespace kernels;
namespace {

using test::expect_equal;
using test::product;

struct Tiles {
  int bm, bn, bk, stages = 0;
};

class Pingpong : public test::OnDevice {
 protected:
  template <class T, class O>
  void check_shapes(Tiles t, bool b_transposed);
  /// Nothing is compiled for the cpu.
  template <class Kernel, class... Config>
  void expect_pingpong(const Kernel& kernel, const Config&... config) const {
    if (GetParam().kind == DeviceKind::cpu) return;
    const std::string said = kernel.explain(config...);
    EXPECT_NE(said.find("pingpong=1"), std::string::npos) << said;
    EXPECT_EQ(said.find("no ping-pong"), std::string::npos) << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Pingpong, testing::ValuesIn(test::devices()), test::device_name);

/// The eight-line kernel.
template <class T, class O>
auto matmul_of(Tiles t) {
  return kernel("in_turn",
                [=](In<T, 2> A, In<T, 2> B, Out<O, 2> C) {
                  for (auto [m, n] : grid(C, t.bm, t.bn, group_m(8))) {
                    auto acc = zeros<f32>(t.bm, t.bn);
                    for (auto k : steps(A.cols(), t.bk).stages(t.stages))
                      acc = dot(A(m, k), B(k, n), acc);
                    C(m, n) = acc;
                  }
                })
      .prefer({.pingpong = true});
}

using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

/// One tile, fewer tiles than the simulator has CTAs, odd and even numbers of tiles per program,
/// ragged edges; no k-iterations, fewer than a ring has slots, as many, and more.
const Shape kShapes[] = {{128, 128, 64},  {64, 32, 512},   {256, 256, 256}, {384, 128, 72},
                         {264, 520, 136}, {648, 264, 456}, {640, 512, 0},   {1160, 520, 328}};

template <class T, class O>
void Pingpong::check_shapes(Tiles t, bool b_transposed) {
  const auto kernel = matmul_of<T, O>(t);
  for (const auto& [m, n, k] : kShapes) {
    if (sizeof(T) == 1 && k % 16 != 0) continue;
    SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k);
    const Tensor A = integers({m, k}, dtype_of<T>, 1),
                 B = integers({k, n}, dtype_of<T>, 2, b_transposed), C = empty({m, n}, dtype_of<O>);
    kernel(stream(), A, B, C);
    expect_equal(C, product(A, B));
    if (k % 64 == 0 && k > 0) expect_pingpong(kernel);  // rows of no elements have no box
  }
}

TEST_P(Pingpong, Square) {
  check_shapes<bf16, f32>({128, 128, 64}, false);
  check_shapes<bf16, bf16>({128, 128, 64}, true);
}
TEST_P(Pingpong, Wide) {
  check_shapes<f16, f16>({64, 256, 64}, true);
  check_shapes<bf16, f32>({64, 192, 32}, false);
}
TEST_P(Pingpong, Tall) { check_shapes<bf16, f32>({256, 64, 64}, false); }
TEST_P(Pingpong, EightBits) { check_shapes<f8e4m3, bf16>({128, 128, 128}, true); }
/// Two neighbouring CTAs load the operand that both tiles need once, warpgroup by warpgroup.
TEST_P(Pingpong, Shared) {
  for (const int group : {8, 1}) {
    const auto shared = kernel("shared", [=](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
                          for (auto [m, n] : grid(C, 128, 128, group_m(group))) {
                            auto acc = zeros<f32>(128, 128);
                            for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
                            C(m, n) = acc;
                          }
                        }).prefer({.multicast = true, .pingpong = true});
    for (const auto& [m, n, k] : kShapes) {
      SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k);
      const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                   C = empty({m, n}, DType::f32);
      shared(stream(), A, B, C);
      expect_equal(C, product(A, B));
      if (k % 64 != 0 || k == 0 || GetParam().kind == DeviceKind::cpu) continue;
      expect_pingpong(shared);
      EXPECT_NE(shared.explain().find("shared=1"), std::string::npos) << shared.explain();
    }
  }
}

/// Loops whose length is known at launch, possibly 0: a tile without iterations hands over the
/// order, too.
TEST_P(Pingpong, NoSteps) {
  const auto kernel_to = test::product_to_depth(128, {.pingpong = true});
  expect_products_to_depths(kernel_to, 576, {0, 64, 192, 384, 448, 576});
  expect_pingpong(kernel_to);
}

/// The number of steps grows with the tile's number, from 0, so that the groups advance rings by
/// different counts. A step of 64 that begins at 32 has all of its 64 elements.
TEST_P(Pingpong, UnevenSteps) {
  const auto ragged = kernel("ragged", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
                        for (auto [m, n] : grid(C, 128, 64)) {
                          auto acc = zeros<f32>(128, 64);
                          for (auto k : steps(Tile(32), n.first() / 2, 64))
                            acc = dot(A(m, k), B(k, n), acc);
                          C(m, n) = acc;
                        }
                      }).prefer({.pingpong = true});
  const std::int64_t m = 384, n = 1152, k = 576;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               C = empty({m, n}, DType::f32);
  ragged(stream(), A, B, C);
  const auto a = A.to_doubles(), b = B.to_doubles();
  std::vector<double> want(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 32; l < 32 + j / 64 / 2 * 64 && l < k; ++l)
        want[static_cast<std::size_t>(i * n + j)] +=
            a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)];
  expect_equal(C, want);
  expect_pingpong(ragged);
}

TEST_P(Pingpong, FewSlots) { check_shapes<bf16, f32>({128, 64, 64, 2}, false); }

/// Epilogues that store a block of columns at a time or all at once, by exchanges between lanes or
/// through the group's own shared memory.
TEST_P(Pingpong, Epilogue) {
  for (const char* plan :
       {"", "epilogue_tile_n=0", "stage_stores=1", "producer_warps=1 consumer_registers=0"}) {
    SCOPED_TRACE(plan);
    Env changed = env();
    changed.plan = plan;
    const EnvOverride scope(changed);
    const auto added = fused_matmul<bf16, bf16>([](Tile acc, Index m, Index n, In<bf16, 1> bias,
                                                   In<f32, 1> rows, In<bf16, 2> before) {
      return (acc + expand(cast<f32>(bias(n)), 0)) * expand(rows(m), 1) + cast<f32>(before(m, n));
    });
    const MatmulConfig config{.bm = 128, .bn = 128, .bk = 64, .pingpong = true};
    for (const auto& [m, n, k] : {Shape{648, 392, 328}, {1288, 392, 64}, {128, 128, 384}}) {
      const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                   bias = integers({n}, DType::bf16, 3), rows = integers({m}, DType::f32, 4),
                   R = integers({m, n}, DType::bf16, 5), C = empty({m, n}, DType::bf16);
      added.run(config, stream(), A, B, C, bias, rows, R);
      std::vector<double> want = product(A, B);
      const auto b = bias.to_doubles(), r = rows.to_doubles(), before = R.to_doubles();
      for (std::size_t i = 0; i < want.size(); ++i) {
        const std::size_t width = static_cast<std::size_t>(n);
        want[i] = (want[i] + b[i % width]) * r[i / width] + before[i];
      }
      expect_equal(C, want);
    }
    expect_pingpong(added, config);
  }
}

/// Warps of a warpgroup synchronise: sums over rows and of whole tiles, stored by the group's first
/// thread.
TEST_P(Pingpong, GroupsSynchroniseByThemselves) {
  const auto reduced =
      kernel("reduced", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C, Out<f32, 2> totals) {
        for (auto [m, n] : grid(C, 128, 64)) {
          auto acc = zeros<f32>(128, 64);
          for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
          const Tile columns = sum(acc, 0);
          C(m, n) = acc + expand(columns, 0);
          totals(m.first() / 128, n.first() / 64) = sum(columns, 0);
        }
      }).prefer({.pingpong = true});
  for (const auto& [m, n, k] : {Shape{512, 640, 192}, {128, 1088, 64}}) {
    const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                 C = empty({m, n}, DType::f32), totals = empty({m / 128, n / 64}, DType::f32);
    reduced(stream(), A, B, C, totals);
    const std::vector<double> sums = product(A, B);
    std::vector<double> want = sums, total(static_cast<std::size_t>(m / 128 * (n / 64)));
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int64_t l = i / 128 * 128; l < i / 128 * 128 + 128; ++l)
          want[static_cast<std::size_t>(i * n + j)] += sums[static_cast<std::size_t>(l * n + j)];
        total[static_cast<std::size_t>(i / 128 * (n / 64) + j / 64)] +=
            sums[static_cast<std::size_t>(i * n + j)];
      }
    expect_equal(C, want);
    expect_equal(totals, total);
  }
  expect_pingpong(reduced);
}

/// Several mainloops of a tile acquire the order once: one in its own loop, one whose A is loaded
/// before it.
TEST_P(Pingpong, SeveralLoops) {
  const auto chain =
      kernel("several", [](In<bf16, 3> A, In<bf16, 3> B, In<bf16, 2> D, Out<f32, 2> C) {
        for (auto [m, n] : grid(C, 128, 64)) {
          auto acc = zeros<f32>(128, 64);
          for (auto e : steps(A.dim(0), 1)) {
            auto part = zeros<f32>(128, 64);
            for (auto k : steps(A.dim(2), 64)) part = dot(A(e, m, k), B(e, k, n), part);
            acc = acc + part * part;
          }
          auto more = zeros<f32>(128, 64);
          const Index head(Tile(0), 64);
          const Tile d = D(m, head);
          for (auto e : steps(B.dim(0), 1)) more = dot(d, B(e, head, n), more);
          C(m, n) = acc + more;
        }
      }).prefer({.pingpong = true});
  const std::int64_t m = 392, n = 584, k = 192;
  const Tensor A = integers({3, m, k}, DType::bf16, 1), B = integers({3, k, n}, DType::bf16, 2),
               D = integers({m, k}, DType::bf16, 3), C = empty({m, n}, DType::f32);
  chain(stream(), A, B, D, C);
  const std::vector<double> parts = product(A, B);
  std::vector<double> want(static_cast<std::size_t>(m * n));
  for (std::int64_t e = 0; e < 3; ++e) {
    const Tensor entry = B.slice(0, e, e + 1).reshape({k, n});
    const std::vector<double> more = product(D.slice(1, 0, 64), entry.slice(0, 0, 64));
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double part = parts[static_cast<std::size_t>(e) * want.size() + i];
      want[i] += part * part + more[i];
    }
  }
  expect_equal(C, want);
  expect_pingpong(chain);
}

/// Both accumulators of a gated unit, promoted accumulators of fp8, batches, and an MMA that waits
/// for the copies of its operands.
TEST_P(Pingpong, OtherMmas) {
  const MatmulConfig square{.bm = 128, .bn = 64, .bk = 64, .pingpong = true};
  const auto gated = gated_matmul<bf16, f32>([](Tile g, Tile u, Index, Index) { return g + u; });
  const std::int64_t m = 648, n = 200, k = 200;
  const Tensor A = integers({m, k}, DType::bf16, 1), G = integers({k, n}, DType::bf16, 2),
               U = integers({k, n}, DType::bf16, 3), C = empty({m, n}, DType::f32);
  gated.run(square, stream(), A, G, U, C);
  std::vector<double> want = product(A, G);
  const std::vector<double> up = product(A, U);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += up[i];
  expect_equal(C, want);

  const auto plain = [](Tile acc, Index, Index) { return acc; };
  const auto fp32_promotion =
      fused_matmul<f8e4m3, f32>(plain, MatmulOptions{.fp32_promotion = true});
  const Tensor A8 = integers({392, 528}, DType::f8e4m3, 1),
               B8 = integers({528, 200}, DType::f8e4m3, 2, true),
               C8 = empty({392, 200}, DType::f32);
  const MatmulConfig half{.bm = 64, .bn = 128, .bk = 128, .pingpong = true};
  fp32_promotion.run(half, stream(), A8, B8, C8);
  expect_equal(C8, product(A8, B8));
  expect_pingpong(fp32_promotion, half);

  const auto whole = fused_matmul<bf16, f32>(plain);
  const Tensor As = integers({5, 200, 136}, DType::bf16, 4),
               Bs = integers({5, 136, 200}, DType::bf16, 5), Cs = empty({5, 200, 200}, DType::f32);
  whole.run(square, stream(), As, Bs, Cs);
  expect_equal(Cs, product(As, Bs));

  const Tensor Ao = integers({392, 131}, DType::bf16, 6), Bo = integers({131, 393}, DType::bf16, 7),
               Co = empty({392, 393}, DType::f32);
  whole.run(square, stream(), Ao, Bo, Co);
  expect_equal(Co, product(Ao, Bo));
  expect_pingpong(whole, square);
}

/// A thread of a consumer warp is the producer, which needs more than scalars: one warpgroup
/// computes all tiles.
TEST_P(Pingpong, CopiesThatDependOnTiles) {
  const auto deep = kernel("deep", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
                      for (auto [m, n] : grid(C, 128, 64)) {
                        const Tile last = max(arange(192) + cast<i32>(m.first() * 0), axis(0)) + 1;
                        auto acc = zeros<f32>(128, 64);
                        for (auto k : steps(Tile(0), last, 64)) acc = dot(A(m, k), B(k, n), acc);
                        C(m, n) = acc;
                      }
                    }).prefer({.pingpong = true});
  const std::int64_t m = 648, n = 200, k = 192;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               C = empty({m, n}, DType::f32);
  deep(stream(), A, B, C);
  expect_equal(C, product(A, B));
  if (GetParam().kind == DeviceKind::cpu) return;
  const std::string said = deep.explain();
  EXPECT_NE(said.find("depend on tiles in registers"), std::string::npos) << said;
  EXPECT_NE(said.find("threads 128"), std::string::npos) << said;
}

/// All warps compute a tile if one warpgroup cannot, or if tiles come from a counter.
TEST_P(Pingpong, RequestedWithoutEffect) {
  const std::int64_t m = 264, n = 520, k = 136;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               C = empty({m, n}, DType::f32);
  for (const auto& [tiles, plan] :
       {std::pair(Tiles{128, 256, 64}, ""),
        {Tiles{128, 192, 64}, ""},
        {Tiles{128, 128, 64}, "dynamic_scheduler=1"},
        {Tiles{128, 128, 64}, "persistent=0"},
        {Tiles{128, 128, 64}, "producer_warps=0 consumer_registers=0"}}) {
    SCOPED_TRACE(std::to_string(tiles.bn) + plan);
    Env changed = env();
    changed.plan = plan;
    const EnvOverride scope(changed);
    const auto kernel = matmul_of<bf16, f32>(tiles);
    kernel(stream(), A, B, C);
    expect_equal(C, product(A, B));
    if (GetParam().kind == DeviceKind::cpu) continue;
    const std::string said = kernel.explain();
    EXPECT_NE(said.find("no ping-pong"), std::string::npos) << said;
    EXPECT_NE(said.find("pingpong=0"), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace tegula::pingpong_test
