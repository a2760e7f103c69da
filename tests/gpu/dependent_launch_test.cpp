// Products that start while the copies of their operands end, on the GPU: right at every launch,
// one after another on memory that they share, and in a captured graph. Twin:
// tests/unit/kernels/dependent_launch_test.cpp looks at the instructions.
#include <gtest/gtest.h>

#include <vector>

#include "runtime/context.h"
#include "runtime/launch.h"
#include "tegula/kernels/copy.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/gpu/recorded_graph.h"

namespace tegula::dependent_launch_test {
using namespace kernels;
namespace {

struct Plain {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

/// Operands with odd rows, and their matmul.
struct Case {
  Tensor a, b, want, got, wrong;
};

const std::vector<MatmulConfig>& configs() {
  static const std::vector<MatmulConfig> kConfigs{
      {.bm = 64, .bn = 128, .stages = 8},
      {.bm = 128, .bn = 192, .stages = 5},
      {.bm = 64, .bn = 64, .stages = 2},
      {.bm = 128, .bn = 128, .split = SplitK::partials, .parts = 4},
      {.bm = 64, .bn = 128, .split = SplitK::cluster, .parts = 2},
      {.bm = 64, .bn = 128, .operands = OperandPath::direct}};
  return kConfigs;
}

class DependentLaunchOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
    if (runtime::device_properties(0).compute() != 90) GTEST_SKIP() << "not an sm_90 GPU";
    stream_ = Stream::create(kGpu);
    for (const Dims& mnk : {Dims{1001, 123, 119}, Dims{83, 495, 1079}, Dims{395, 767, 241}})
      cases_.push_back(prepared(mnk));
  }

  /// The same numbers in rows that TMA takes: no copies.
  Tensor in_whole_lines(const Tensor& t) const {
    const std::int64_t line = 64, cols = (t.size(1) + line - 1) / line * line;
    const Tensor room = Tensor::empty({t.size(0), cols}, t.dtype(), kGpu),
                 same = room.slice(1, 0, t.size(1));
    copy(stream_, t, same);
    return same;
  }
  Case prepared(const Dims& mnk) {
    const std::int64_t m = mnk[0], n = mnk[1], k = mnk[2];
    const auto integers = [&](const Dims& shape) {
      return Tensor::integers(shape, DType::bf16, -3, 4, ++seed_, kGpu);
    };
    Case c{integers({m, k}), integers({k, n}), Tensor::empty({m, n}, DType::f32, kGpu),
           Tensor::full({m, n}, -1, DType::f32, kGpu), Tensor::zeros({m, n}, DType::i32, kGpu)};
    const Tensor a = in_whole_lines(c.a), b = in_whole_lines(c.b);
    product_.run({64, 64, 64}, stream_, a, b, c.want);
    stream_.synchronize();
    return c;
  }
  /// Runs the matmuls one after another. Each one writes its copies to the same memory.
  void run_all(const MatmulConfig& config) const {
    for (const Case& c : cases_) product_.run(config, stream_, c.a, c.b, c.got);
    for (const Case& c : cases_) count_(stream_, c.got, c.want, c.wrong);
  }
  void expect_exact() const {
    stream_.synchronize();
    for (const Case& c : cases_) {
      std::int64_t sum = 0;
      for (const i32 w : c.wrong.to_vector<i32>()) sum += w;
      EXPECT_EQ(sum, 0) << c.a.str();
    }
  }

  const Device kGpu = Device::cuda();
  Stream stream_;
  std::vector<Case> cases_;

 private:
  std::uint64_t seed_ = 0;
  FusedMatmul<bf16, f32, Plain> product_{Plain{}};
  Kernel<InOut<f32, 2>, In<f32, 2>, InOut<i32, 2>> count_ =
      kernel("count", [](InOut<f32, 2> got, In<f32, 2> want, InOut<i32, 2> wrong) {
        for (auto [i, j] : grid(got, 16, 128)) {
          wrong(i, j) = wrong(i, j) + cast<i32>(got(i, j) != want(i, j));
          got(i, j) = full<f32>(-1, 16, 128);
        }
      });
};

TEST_F(DependentLaunchOnGpu, EveryLaunchIsExact) {
  for (const MatmulConfig& config : configs()) {
    SCOPED_TRACE(config.str());
    for (int i = 0; i < 200; ++i) run_all(config);
    expect_exact();
  }
}

TEST_F(DependentLaunchOnGpu, Captured) {
  for (const MatmulConfig& config : configs()) {
    SCOPED_TRACE(config.str());
    run_all(config);  // compiles, and the stream's memory grows
    stream_.synchronize();
    const test::RecordedGraph graph(stream_, [&] { run_all(config); });
    for (int i = 0; i < 100; ++i) graph.replay(stream_);
    expect_exact();
  }
}

}  // namespace
}  // namespace tegula::dependent_launch_test
