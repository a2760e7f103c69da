// Kernels that count their tiles, on streams at once and in graphs; twin:
// tests/differential/dynamic_tiles_test.cpp on the simulator.
#include <optional>

#include "runtime/context.h"
#include "tests/differential/ragged_matmul.h"
#include "tests/gpu/by_back_end.h"
#include "tests/gpu/recorded_graph.h"

namespace tegula::test::dynamic_tiles_test {
namespace {

constexpr std::int64_t kManyTiles = 400;  // some for each SM

class DynamicTilesOnGpu : public ByBackEnd {
 protected:
  void SetUp() override {
    ByBackEnd::SetUp();
    if (IsSkipped()) return;
    in_.emplace(kManyTiles, Device::cuda());
  }
  void launch(const Stream& stream, const Tensor& C) const {
    product_(stream, in_->A, in_->B, in_->blocks, C);
  }
  void expect_right(const Tensor& C) const { EXPECT_EQ(C.to_doubles(), in_->expected()); }

  std::optional<UnevenInputs> in_;
  UnevenProduct product_ = uneven_product();
};
INSTANTIATE_TEST_SUITE_P(BackEnds, DynamicTilesOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

/// A launch's counter is what the one before has left.
TEST_P(DynamicTilesOnGpu, OneLaunchAfterAnother) {
  const Stream stream = Stream::create(Device::cuda());
  std::vector<Tensor> results;
  for (int i = 0; i < 5; ++i) {
    results.push_back(in_->result());
    for (int again = 0; again < 20; ++again) launch(stream, results.back());
  }
  stream.synchronize();
  for (const Tensor& C : results) expect_right(C);
  EXPECT_NE(product_.explain().find("dynamic_scheduler=1"), std::string::npos)
      << product_.explain();
}

TEST_P(DynamicTilesOnGpu, OnStreamsAtOnce) {
  const std::vector<Stream> streams{Stream::create(Device::cuda()), Stream::create(Device::cuda()),
                                    Stream(Device::cuda())};
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < streams.size(); ++i) results.push_back(in_->result());
  for (int again = 0; again < 30; ++again)
    for (std::size_t i = 0; i < streams.size(); ++i) launch(streams[i], results[i]);
  for (const Stream& stream : streams) stream.synchronize();
  for (const Tensor& C : results) expect_right(C);
}

/// A graph recorded on a stream where the kernel has not run, replayed on others next to launches.
TEST_P(DynamicTilesOnGpu, InGraphs) {
  const Stream recorded = Stream::create(Device::cuda()), first = Stream::create(Device::cuda()),
               second = Stream::create(Device::cuda());
  const Tensor one = in_->result(), two = in_->result(), eager = in_->result();
  launch(first, eager);
  first.synchronize();
  const auto twice = [&](const Tensor& C) { launch(recorded, C), launch(recorded, C); };
  const RecordedGraph graph(recorded, [&] { twice(one); }), other(recorded, [&] { twice(two); });
  for (int i = 0; i < 20; ++i) {
    graph.replay(first);
    other.replay(second);
    launch(recorded, eager);
  }
  for (const Stream& stream : {recorded, first, second}) stream.synchronize();
  for (const Tensor& C : {one, two, eager}) expect_right(C);
}

}  // namespace
}  // namespace tegula::test::dynamic_tiles_test
