// Clusters on the GPU: reductions through the shared memory of neighbours and multicast operands
// are right at every launch, and both back ends give the same bits; so is ping-pong, alone and in
// clusters. Twins: tests/differential/{clusters,multicast,pingpong}_test.cpp on the simulator.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/context.h"
#include "runtime/doctor.h"
#include "support/env.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"

namespace tegula::clusters_test {
using namespace kernels;
namespace {

struct Plain {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

const std::vector<MatmulConfig>& configs() {
  static const std::vector<MatmulConfig> kConfigs{
      {.bm = 64, .bn = 64, .bk = 64, .split = SplitK::cluster, .parts = 8},
      {.bm = 64, .bn = 128, .bk = 64, .split = SplitK::cluster, .parts = 4},
      {.bm = 64, .bn = 256, .bk = 64, .split = SplitK::cluster, .parts = 2},
      {.bm = 128, .bn = 64, .bk = 64, .split = SplitK::cluster, .parts = 2},
      {.bm = 128, .bn = 128, .bk = 64, .split = SplitK::cluster, .parts = 4},
      {.bm = 128, .bn = 160, .bk = 64, .split = SplitK::cluster, .parts = 4},
      {.bm = 128, .bn = 256, .bk = 64, .split = SplitK::cluster, .parts = 2},
      {.bm = 128, .bn = 256, .bk = 64, .split = SplitK::cluster, .parts = 8},
      {.bm = 16, .bn = 128, .bk = 64, .split = SplitK::cluster, .parts = 4, .swap_ab = true}};
  return kConfigs;
}

const std::vector<MatmulConfig>& shared_operands() {
  static const std::vector<MatmulConfig> kConfigs{
      {.bm = 128, .bn = 256, .bk = 64, .multicast = Multicast::b},
      {.bm = 128, .bn = 192, .bk = 64, .multicast = Multicast::b},
      {.bm = 128, .bn = 256, .bk = 64, .stages = 2, .multicast = Multicast::b},
      {.bm = 256, .bn = 128, .bk = 64, .multicast = Multicast::b}};
  return kConfigs;
}

const std::vector<MatmulConfig>& tiles_in_turn() {
  static const std::vector<MatmulConfig> kConfigs{
      {.bm = 128, .bn = 128, .bk = 64, .pingpong = true},
      {.bm = 128, .bn = 128, .bk = 64, .multicast = Multicast::b, .pingpong = true},
      {.bm = 128, .bn = 128, .bk = 64, .stages = 2, .pingpong = true},
      {.bm = 64, .bn = 256, .bk = 64, .pingpong = true},
      {.bm = 256, .bn = 64, .bk = 64, .pingpong = true}};
  return kConfigs;
}

class ClustersOnGpu : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
    if (runtime::device_properties(0).compute() != 90) GTEST_SKIP() << "not an sm_90 GPU";
    use(GetParam());
  }
  void use(const char* backend) {
    if (std::string(backend) == "nvrtc" && !runtime::diagnose().finding("NVRTC").present)
      GTEST_SKIP() << "no NVRTC here";
    Env wanted = env();
    wanted.backend = backend;
    scope_.reset();
    scope_.emplace(wanted);
  }
  Tensor integers(const Dims& shape, std::uint64_t seed) const {
    return Tensor::integers(shape, DType::bf16, -3, 4, seed, Device::cuda());
  }
  /// The sums are integers below 2^24. A CTA that leaves or reads too early shows in some launch.
  void expect_exact(const std::vector<MatmulConfig>& configs, std::int64_t m, std::int64_t n,
                    std::int64_t k, int launches) const;

 private:
  std::optional<EnvOverride> scope_;
};
INSTANTIATE_TEST_SUITE_P(BackEnds, ClustersOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

void ClustersOnGpu::expect_exact(const std::vector<MatmulConfig>& configs, std::int64_t m,
                                 std::int64_t n, std::int64_t k, int launches) const {
  const auto product = fused_matmul<bf16, f32>(Plain{});
  const auto count = kernel("count", [](InOut<f32, 2> got, In<f32, 2> want, InOut<i32, 2> wrong) {
    for (auto [i, j] : grid(got, 16, 128)) {
      wrong(i, j) = wrong(i, j) + cast<i32>(got(i, j) != want(i, j));
      got(i, j) = full<f32>(-1, 16, 128);
    }
  });
  const Stream stream = Stream::create(Device::cuda());
  const Tensor A = integers({m, k}, 1), B = integers({k, n}, 2),
               want = Tensor::empty({m, n}, DType::f32, Device::cuda()),
               C = Tensor::full({m, n}, -1, DType::f32, Device::cuda());
  product.run({128, 128, 64}, stream, A, B, want);
  for (const MatmulConfig& c : configs) {
    SCOPED_TRACE(c.str());
    const Tensor wrong = Tensor::zeros({m, n}, DType::i32, Device::cuda());
    for (int i = 0; i < launches; ++i) {
      product.run(c, stream, A, B, C);
      count(stream, C, want, wrong);
    }
    stream.synchronize();
    std::int64_t sum = 0;
    for (const i32 w : wrong.to_vector<i32>()) sum += w;
    EXPECT_EQ(sum, 0);
  }
}

TEST_P(ClustersOnGpu, EveryLaunchIsExact) { expect_exact(configs(), 250, 520, 4104, 500); }

/// One tile, fewer tiles than CTAs, and several for each; odd numbers of tiles and of their rows;
/// mainloops shorter than the ring and longer.
TEST_P(ClustersOnGpu, SharedOperandsAreExactAtEveryLaunch) {
  expect_exact(shared_operands(), 100, 200, 72, 300);
  expect_exact(shared_operands(), 1160, 776, 136, 300);
  expect_exact(shared_operands(), 2440, 4616, 1032, 200);
}

/// Fewer tiles than CTAs, an odd number for some of them, and many.
TEST_P(ClustersOnGpu, PingpongIsExactAtEveryLaunch) {
  expect_exact(tiles_in_turn(), 100, 200, 72, 300);
  expect_exact(tiles_in_turn(), 2312, 2184, 136, 300);
  expect_exact(tiles_in_turn(), 4488, 4616, 1032, 200);
}

class ClustersByBoth : public ClustersOnGpu {};
INSTANTIATE_TEST_SUITE_P(BackEnds, ClustersByBoth, testing::Values("nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

/// Checks sums of numbers that round, too.
TEST_P(ClustersByBoth, BackEndsAgreeBitForBit) {
  const std::int64_t m = 250, n = 520, k = 2056;
  const Device gpu = Device::cuda();
  const Tensor A = Tensor::normal({m, k}, DType::bf16, 0, 1, 1, gpu),
               B = Tensor::normal({k, n}, DType::bf16, 0, 1, 2, gpu);
  std::vector<MatmulConfig> all = configs();
  all.insert(all.end(), shared_operands().begin(), shared_operands().end());
  all.insert(all.end(), tiles_in_turn().begin(), tiles_in_turn().end());
  for (const MatmulConfig& c : all) {
    SCOPED_TRACE(c.str());
    std::vector<std::vector<f32>> results;
    for (const char* backend : {"llvm", "nvrtc"}) {
      use(backend);
      const Tensor C = Tensor::empty({m, n}, DType::f32, gpu);
      fused_matmul<bf16, f32>(Plain{}).run(c, Stream(gpu), A, B, C);
      results.push_back(C.to_vector<f32>());
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

}  // namespace
}  // namespace tegula::clusters_test
