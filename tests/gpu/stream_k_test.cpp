// Stream-K matmuls, launched many times, on streams at once and in graphs; twin:
// tests/differential/stream_k_test.cpp.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/gpu/by_back_end.h"
#include "tests/gpu/recorded_graph.h"

namespace tegula::test::stream_k_test {
using namespace kernels;
namespace {

/// Operands are small integers, so that sums are exact.
struct Inputs {
  Inputs(std::int64_t m, std::int64_t n, std::int64_t k)
      : A(Tensor::integers({m, k}, DType::bf16, -3, 4, 1, Device::cuda())),
        B(Tensor::integers({k, n}, DType::bf16, -3, 4, 2, Device::cuda())) {}
  Tensor result() const {
    return Tensor::full({A.size(0), B.size(1)}, -77, DType::f32, A.device());
  }
  Tensor A, B;
};

struct Sums {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

class StreamKOnGpu : public ByBackEnd {
 protected:
  void SetUp() override {
    ByBackEnd::SetUp();
    if (IsSkipped()) return;
    config_.split = SplitK::stream, config_.parts = runtime::device_properties(0).sm_count;
  }
  void launch(const Stream& stream, const Inputs& in, const Tensor& C) const {
    product_.run(config_, stream, in.A, in.B, C);
  }
  /// By tiles that are one program's each.
  std::vector<double> expected(const Inputs& in) const {
    const Tensor C = in.result();
    product_.run({.bm = 128, .bn = 128, .bk = 64}, Stream(Device::cuda()), in.A, in.B, C);
    return C.to_doubles();
  }

  MatmulConfig config_{.bm = 128, .bn = 256, .bk = 64};
  FusedMatmul<bf16, f32, Sums> product_ = fused_matmul<bf16, f32>(Sums{});
};
INSTANTIATE_TEST_SUITE_P(BackEnds, StreamKOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

/// A ragged last wave, fewer tiles than CTAs, fewer k-iterations than CTAs, and more CTAs than one
/// an SM.
TEST_P(StreamKOnGpu, ManyLaunches) {
  const Stream stream = Stream::create(Device::cuda());
  const int sms = config_.parts;
  for (const Dims& s : {Dims{2304, 2304, 2048}, Dims{1000, 2056, 1096}, Dims{512, 512, 8192},
                        Dims{130, 264, 700}, Dims{4096, 4096, 512}})
    for (const MatmulConfig& c :
         {config_,
          MatmulConfig{.bm = 64, .bn = 64, .bk = 64, .split = SplitK::stream, .parts = 2 * sms},
          {.bm = 16,
           .bn = 128,
           .bk = 64,
           .split = SplitK::stream,
           .parts = sms,
           .swap_ab = true,
           .stages = 8},
          {.bm = 128, .bn = 128, .bk = 64, .split = SplitK::stream, .parts = sms - 1}}) {
      SCOPED_TRACE(s.str() + " " + c.str());
      const Inputs in(s[0], s[1], s[2]);
      const Tensor C = in.result();
      for (int again = 0; again < 20; ++again) product_.run(c, stream, in.A, in.B, C);
      stream.synchronize();
      ASSERT_EQ(C.to_doubles(), expected(in));
    }
}

/// Rounded sums, in any order of arrival.
TEST_P(StreamKOnGpu, IsDeterministic) {
  const Tensor A = Tensor::normal({700, 3000}, DType::bf16, 0, 1, 1, Device::cuda()),
               B = Tensor::normal({3000, 900}, DType::bf16, 0, 1, 2, Device::cuda()),
               C = Tensor::empty({700, 900}, DType::f32, Device::cuda());
  const Stream stream = Stream::create(Device::cuda());
  std::vector<double> first;
  for (int again = 0; again < 50; ++again) {
    product_.run(config_, stream, A, B, C);
    stream.synchronize();
    if (again == 0) first = C.to_doubles();
    ASSERT_EQ(C.to_doubles(), first) << again;
  }
}

TEST_P(StreamKOnGpu, OnStreamsAtOnce) {
  const std::vector<Stream> streams{Stream::create(Device::cuda()), Stream::create(Device::cuda()),
                                    Stream(Device::cuda())};
  const Inputs in(900, 1100, 1500);
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < streams.size(); ++i) results.push_back(in.result());
  for (int again = 0; again < 30; ++again)
    for (std::size_t i = 0; i < streams.size(); ++i) launch(streams[i], in, results[i]);
  for (const Stream& stream : streams) stream.synchronize();
  for (const Tensor& C : results) EXPECT_EQ(C.to_doubles(), expected(in));
}

/// Two launches in a graph, replayed next to launches on another stream.
TEST_P(StreamKOnGpu, InGraphs) {
  const Stream recorded = Stream::create(Device::cuda()), other = Stream::create(Device::cuda());
  const Inputs in(900, 1100, 1500);
  const Tensor C = in.result(), eager = in.result();
  launch(recorded, in, C);  // its memory is made
  recorded.synchronize();
  const RecordedGraph graph(recorded, [&] { launch(recorded, in, C), launch(recorded, in, C); });
  for (int i = 0; i < 20; ++i) {
    graph.replay(recorded);
    launch(other, in, eager);
  }
  for (const Stream& stream : {recorded, other}) stream.synchronize();
  for (const Tensor& result : {C, eager}) EXPECT_EQ(result.to_doubles(), expected(in));
}

}  // namespace
}  // namespace tegula::test::stream_k_test
