// Operands that two neighbouring tiles share, multicast: matmuls in clusters of two on every
// available device. Operands are small integers, so that sums are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "ir/schedule/edits.h"
#include "ir/schedule/text.h"
#include "support/env.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::multicast_test {
using namespace kernels;
namespace {

using test::expect_equal;
using test::product;

struct Tiles {
  int bm, bn, bk, group = 8;
};

/// The eight-line kernel, tiles in groups along M.
template <class T, class O>
auto matmul_of(Tiles t) {
  return kernel("shared",
                [=](In<T, 2> A, In<T, 2> B, Out<O, 2> C) {
                  for (auto [m, n] : grid(C, t.bm, t.bn, group_m(t.group))) {
                    auto acc = zeros<f32>(t.bm, t.bn);
                    for (auto k : steps(A.cols(), t.bk)) acc = dot(A(m, k), B(k, n), acc);
                    C(m, n) = acc;
                  }
                })
      .prefer({.multicast = true});
}

using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

/// Even and odd numbers of tiles, more and fewer than the simulator has CTAs, odd groups of rows at
/// whose end neighbours share nothing, ragged edges, no, few and many k-iterations.
const Shape kShapes[] = {{128, 256, 64},  {256, 256, 256}, {384, 256, 72},  {264, 520, 136},
                         {648, 264, 200}, {640, 512, 0},   {128, 1288, 64}, {1160, 520, 328}};

class Multicast : public test::OnDevice {
 protected:
  /// One load that programs share; nothing is compiled for the cpu.
  template <class Kernel>
  void expect_shared(const Kernel& kernel, std::size_t loads) const {
    if (GetParam().kind == DeviceKind::cpu) return;
    const std::string said = kernel.explain();
    std::size_t found = 0;
    for (std::size_t at = said.find("shared=1"); at != std::string::npos;
         at = said.find("shared=1", at + 1))
      ++found;
    EXPECT_EQ(found, loads) << said;
    EXPECT_NE(said.find("multicast=1"), std::string::npos) << said;
  }
  /// gated_unit() of several shapes.
  template <class Kernel>
  void expect_sums(const Kernel& gated, const std::vector<Shape>& shapes) const;
  template <class T, class O>
  void expect_all_shapes(Tiles tiles, std::uint64_t seed, bool b_transposed) const {
    const auto kernel = matmul_of<T, O>(tiles);
    for (const auto& [m, n, k] : kShapes) {
      if (dtype_of<T> == DType::f8e4m3 && k % 16 != 0) continue;
      SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k);
      const Tensor A = integers({m, k}, dtype_of<T>, seed),
                   B = integers({k, n}, dtype_of<T>, seed + 1, b_transposed),
                   C = empty({m, n}, dtype_of<O>);
      kernel(stream(), A, B, C);
      expect_equal(C, product(A, B));
    }
    expect_shared(kernel, 1);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Multicast, testing::ValuesIn(test::devices()), test::device_name);

TEST_P(Multicast, HalvesByRows) { expect_all_shapes<bf16, f32>({128, 256, 64}, 1, true); }

/// B's rows are four segments of 128 bytes, of which each CTA loads two.
TEST_P(Multicast, HalvesByPieces) { expect_all_shapes<bf16, bf16>({128, 256, 64}, 3, false); }

TEST_P(Multicast, EightBits) { expect_all_shapes<f8e4m3, bf16>({128, 256, 128}, 5, true); }

/// Groups of one row: neighbours are next to each other and share A.
TEST_P(Multicast, RowsOfTiles) {
  const auto kernel = matmul_of<bf16, f32>({.bm = 128, .bn = 192, .bk = 64});
  const std::int64_t m = 392, n = 600, k = 200;
  const Tensor A = integers({m, k}, DType::bf16, 7), B = integers({k, n}, DType::bf16, 8),
               C = empty({m, n}, DType::f32);
  kernel(stream(), A, B, C);
  expect_equal(C, product(A, B));
  expect_shared(kernel, 1);
}

/// Loops of a length known at launch, 0 among them: the CTAs still synchronise at the end.
TEST_P(Multicast, NoSteps) {
  const auto kernel_to = test::product_to_depth(256, {.multicast = true});
  expect_products_to_depths(kernel_to, 192, {0, 64, 192});
  expect_shared(kernel_to, 1);
}

/// Sums of two products of A, whose columns are multicast.
auto gated_unit() {
  return kernel("gated",
                [](In<bf16, 2> A, In<bf16, 2> G, In<bf16, 2> U, Out<f32, 2> C) {
                  for (auto [m, n] : grid(C, 128, 128, group_m(8))) {
                    auto gate = zeros<f32>(128, 128), up = zeros<f32>(128, 128);
                    for (auto k : steps(A.cols(), 64)) {
                      const Tile a = A(m, k);
                      gate = dot(a, G(k, n), gate);
                      up = dot(a, U(k, n), up);
                    }
                    C(m, n) = gate + up;
                  }
                })
      .prefer({.multicast = true});
}

/// Both B's of a gated unit; then, by an author's Schedule, one of them alone, in a channel of its
/// own.
TEST_P(Multicast, TwoSums) {
  const auto gated = gated_unit();
  expect_sums(gated, {{384, 384, 0}, {640, 264, 200}, {136, 136, 64}});
  expect_shared(gated, 2);
  if (GetParam().kind == DeviceKind::cpu) return;
  const std::string said = gated.explain();
  const std::size_t first = said.find("schedule sm_90a"), last = said.find("\n}", first);
  const ir::Schedule s = ir::parse_schedule(said.substr(first, last + 2 - first));
  const auto edited = ir::with_edits(s, "channel own takes load#2; channel own unicast");
  ASSERT_TRUE(edited.reasons.empty());
  const auto one = gated_unit().with_plan(ir::print(edited.schedule));
  expect_sums(one, {{640, 264, 200}, {136, 136, 64}});
  expect_shared(one, 1);
}

template <class Kernel>
void Multicast::expect_sums(const Kernel& gated, const std::vector<Shape>& shapes) const {
  for (const auto& [m, n, k] : shapes) {
    SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k);
    const Tensor A = integers({m, k}, DType::bf16, 1), G = integers({k, n}, DType::bf16, 2),
                 U = integers({k, n}, DType::bf16, 3), C = empty({m, n}, DType::f32);
    gated(stream(), A, G, U, C);
    std::vector<double> want = product(A, G);
    const std::vector<double> up = product(A, U);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += up[i];
    expect_equal(C, want);
  }
}

/// Epilogue operands come a block of columns at a time, before the last MMAs.
TEST_P(Multicast, Residual) {
  for (const char* plan : {"", "epilogue_tile_n=0"}) {
    SCOPED_TRACE(plan);
    Env changed = env();
    changed.plan = plan;
    const EnvOverride scope(changed);
    const auto added = fused_matmul<bf16, f32>(
        [](Tile acc, Index m, Index n, In<f32, 2> before) { return acc + before(m, n); });
    const MatmulConfig config{.bm = 128, .bn = 192, .bk = 64, .multicast = tegula::Multicast::b};
    for (const auto& [m, n, k] : {Shape{648, 392, 328}, {392, 200, 64}}) {
      const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                   R = integers({m, n}, DType::f32, 3), C = empty({m, n}, DType::f32);
      added.run(config, stream(), A, B, C, R);
      std::vector<double> want = product(A, B);
      const std::vector<double> residual = R.to_doubles();
      for (std::size_t i = 0; i < want.size(); ++i) want[i] += residual[i];
      expect_equal(C, want);
    }
    if (GetParam().kind != DeviceKind::cpu) {
      EXPECT_NE(added.explain(config).find("shared=1"), std::string::npos) << added.explain(config);
    }
  }
}

/// Three warpgroups: below each other, or with A's rows along the tensor cores' columns, in heights
/// of 8.
TEST_P(Multicast, HeightsBetweenPowersOfTwo) {
  std::vector<MatmulConfig> configs{{192, 192, 64}};
  for (const int bm : {72, 88, 120, 176})
    configs.push_back({.bm = bm, .bn = 192, .bk = 64, .swap_ab = true});
  for (MatmulConfig config : configs) {
    config.multicast = tegula::Multicast::b;
    SCOPED_TRACE(config.str());
    for (const auto& [m, n, k] : {Shape{520, 200, 136}, {264, 392, 72}, {1, 8, 8}}) {
      const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                   C = empty({m, n}, DType::bf16);
      matmul(stream(), A, B, C, config);
      expect_equal(C, product(A, B));
    }
  }
}

/// Parts of k that a second kernel adds: tiles of one part share rows of A. Odd numbers of tiles,
/// ragged and empty parts.
TEST_P(Multicast, PartsOfK) {
  std::vector<MatmulConfig> configs{{192, 192, 64}, {128, 256, 64}};
  for (const int bm : {136, 176})
    configs.push_back({.bm = bm, .bn = 192, .bk = 64, .swap_ab = true});
  for (MatmulConfig config : configs)
    for (const int parts : {2, 5}) {
      config.split = SplitK::partials, config.parts = parts;
      config.multicast = tegula::Multicast::b;
      SCOPED_TRACE(config.str());
      for (const auto& [m, n, k] : {Shape{264, 520, 712}, {136, 776, 136}, {1, 264, 200}}) {
        const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                     C = empty({m, n}, DType::bf16);
        matmul(stream(), A, B, C, config);
        expect_equal(C, product(A, B));
      }
    }
}

/// A thread of a consumer warp is the producer; few slots; other widths.
TEST_P(Multicast, OtherPlans) {
  for (const char* plan : {"producer_warps=0 consumer_registers=0", "stages=2",
                           "producer_warps=1 consumer_registers=0"}) {
    SCOPED_TRACE(plan);
    Env changed = env();
    changed.plan = plan;
    const EnvOverride scope(changed);
    const auto kernel = matmul_of<bf16, f32>({128, 192, 64});
    for (const auto& [m, n, k] : {Shape{648, 392, 328}, {392, 200, 64}}) {
      const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                   C = empty({m, n}, DType::f32);
      kernel(stream(), A, B, C);
      expect_equal(C, product(A, B));
    }
    expect_shared(kernel, 1);
  }
}

}  // namespace
}  // namespace tegula::multicast_test
