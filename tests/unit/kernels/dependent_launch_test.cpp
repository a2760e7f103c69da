// Matmuls that follow the copies of their operands. They may start before the copies end, so every
// warp waits before it accesses what the copies write, or what an earlier kernel may still read. No
// executor here runs two kernels at a time, so the tests inspect the instructions.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>

#include "ir/kernel.h"
#include "ir/op.h"
#include "ir/text.h"
#include "kernels/moe/expert_products.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"

namespace tegula::dependent_launch_test {
using namespace kernels;
namespace {

using ir::Opcode;
using kernels::detail::MatmulTraits;

struct Plain {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};
struct Both {
  Tile operator()(Tile gate, Tile up, Index, Index) const { return gate * up; }
};

bool touches_global(Opcode op) {
  using enum Opcode;
  constexpr std::array kOps{LdGlobal, StGlobal, AtomGlobal, CpAsync, TmaLoad, TmaStore};
  return std::ranges::find(kOps, op) != kOps.end();
}

/// Follows the instructions of each role in order.
struct Order {
  const ir::Kernel& k;
  int waits = 0, copies = 0, stores = 0;
  int early = 0;  ///< accesses of global memory before a wait

  void follow(ir::RegionId region, bool has_waited = false) {
    for (const ir::OpId op : k.ops(region)) {
      const Opcode o = k[op].opcode;
      has_waited = has_waited || o == Opcode::GridDepWait;
      waits += o == Opcode::GridDepWait ? 1 : 0;
      copies += o == Opcode::TmaLoad ? 1 : 0;
      stores += o == Opcode::StGlobal ? 1 : 0;
      early += touches_global(o) && !has_waited ? 1 : 0;
      for (const ir::RegionId inner : k[op].regions) follow(inner, has_waited);
    }
  }
};

/// Calls the kernel on sim and inspects the instructions of all its roles.
template <class Kernel, class... Args>
void expect_waits(const Kernel& product, bool after_repack, const Args&... args) {
  product(args...);
  const ir::Kernel instructions = ir::parse(product.dump("optimize"));
  Order order{instructions};
  order.follow(instructions.body());
  EXPECT_GT(order.copies, 0);
  EXPECT_GT(order.stores, 0);
  EXPECT_EQ(order.early > 0, !after_repack) << ir::print(instructions);
  // One wait of the producers, one of the consumers.
  EXPECT_EQ(order.waits, after_repack ? 2 : 0);
}

class DependentLaunch : public testing::TestWithParam<bool> {
 protected:
  static Tensor zeros(const Dims& shape, DType dtype = DType::bf16) {
    return Tensor::zeros(shape, dtype, Device::sim());
  }
  MatmulTraits variant(const MatmulConfig& config) const {
    return {config, {}, config.is_cluster_split() ? config.parts : 1, GetParam()};
  }
  Tensor a = zeros({200, 128}), b = zeros({128, 136}), c = zeros({200, 136});
};
INSTANTIATE_TEST_SUITE_P(AfterCopies, DependentLaunch, testing::Bool());

TEST_P(DependentLaunch, AProduct) {
  ConfiguredKernel<kernels::detail::DataParallelMatmul<bf16, bf16, Plain>> products("waits", {});
  // One program for many tiles, one program per tile, and pairs of programs that begin at a
  // barrier.
  for (const MatmulConfig& config :
       {MatmulConfig{.bm = 128, .bn = 192}, MatmulConfig{.bm = 64, .bn = 64, .stages = 2},
        MatmulConfig{.bm = 128, .bn = 192, .multicast = Multicast::b}})
    expect_waits(products.of(variant(config)), GetParam(), a, b, c);
}

TEST_P(DependentLaunch, Batches) {
  ConfiguredKernel<kernels::detail::BatchedMatmul<bf16, bf16, Plain>> products("waits_batched", {});
  expect_waits(products.of(variant({.bm = 64, .bn = 64})), GetParam(), zeros({2, 200, 128}),
               zeros({2, 128, 136}), zeros({2, 200, 136}));
}

TEST_P(DependentLaunch, PartsOfK) {
  ConfiguredKernel<kernels::detail::SplitKMatmul<bf16>> parts("waits_partial", {});
  expect_waits(parts.of(variant({.bm = 64, .bn = 64, .split = SplitK::partials, .parts = 2})),
               GetParam(), a, b, zeros({2, 200, 136}, DType::f32));
  ConfiguredKernel<kernels::detail::DataParallelMatmul<bf16, bf16, Plain>> clusters(
      "waits_clustered", {});
  expect_waits(clusters.of(variant({.bm = 64, .bn = 64, .split = SplitK::cluster, .parts = 2})),
               GetParam(), a, b, c);
}

TEST_P(DependentLaunch, AGatedUnit) {
  ConfiguredKernel<kernels::detail::DataParallelMatmul<bf16, bf16, Both>> gated("waits_gated", {});
  expect_waits(gated.of(variant({.bm = 128, .bn = 64})), GetParam(), a, b, b, c);
}

/// The tables of segments, which an earlier kernel wrote, determine the tiles.
TEST(DependentLaunchOfExperts, TablesAreReadAfterTheWait) {
  const auto zeros = [](const Dims& shape, DType dtype = DType::bf16) {
    return Tensor::zeros(shape, dtype, Device::sim());
  };
  const auto down = kernel("waits_for_tables", experts::ExpertDown<bf16>{});
  expect_waits(down, true, zeros({132, 128}), zeros({3, 128, 128}), Tensor(),
               zeros({4}, DType::i32), zeros({4}, DType::i32), zeros({132, 128}));
}

}  // namespace
}  // namespace tegula::dependent_launch_test
