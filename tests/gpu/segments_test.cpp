// Ragged products in a recorded graph, replayed with other offsets and matrices; twin:
// tests/differential/segments_test.cpp.
#include <random>

#include "tegula/tegula.h"
#include "tests/gpu/by_back_end.h"
#include "tests/gpu/recorded_graph.h"

namespace tegula::test::segments_test {
namespace {

class SegmentsOnGpu : public ByBackEnd {};
INSTANTIATE_TEST_SUITE_P(BackEnds, SegmentsOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

constexpr std::int64_t kRows = 6000, kDepth = 192, kColumns = 256;
constexpr int kSegments = 64;

/// Every third segment is empty, and the last rows belong to no segment.
std::vector<i32> random_offsets(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<i32> offsets{0};
  for (int s = 0; s < kSegments; ++s)
    offsets.push_back(offsets.back() + (s % 3 == 1 ? 0 : static_cast<i32>(random() % 130)));
  return offsets;
}

TEST_P(SegmentsOnGpu, ReplaysWithOtherOffsets) {
  auto product = kernel("grouped", [](In<bf16, 2> A, In<bf16, 3> B, In<i32, 1> offsets,
                                      Out<f32, 2> C) {
    C.partial();
    for (auto [s, m, n] : grid(segments(offsets, A.rows()).by(C.cols()), 128, 128, group_m(8))) {
      Tile sum = zeros<f32>(128, 128);
      for (auto k : steps(A.cols(), 64)) sum = dot(A(m, k), B(s, k, n), sum);
      C(m, n) = sum;
    }
  });
  const Device gpu = Device::cuda();
  const Stream stream = Stream::create(gpu);
  const Tensor A = Tensor::integers({kRows, kDepth}, DType::bf16, -4, 4, 1, gpu),
               B = Tensor::integers({kSegments, kDepth, kColumns}, DType::bf16, -4, 4, 2, gpu),
               offsets = Tensor::from(random_offsets(0), gpu),
               C = Tensor::full({kRows, kColumns}, -77, DType::f32, gpu);
  product(stream, A, B, offsets, C);
  stream.synchronize();
  EXPECT_NE(product.explain().find("dot by wgmma"), std::string::npos) << product.explain();
  const RecordedGraph graph(stream, [&] { product(stream, A, B, offsets, C); });
  const auto a = A.to_doubles(), b = B.to_doubles();
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    const std::vector<i32> next = random_offsets(seed);
    offsets.copy_from(Tensor::from(next, gpu), stream);
    C.copy_from(Tensor::full({kRows, kColumns}, -77, DType::f32, gpu), stream);
    graph.replay(stream);
    stream.synchronize();
    const auto c = C.to_doubles();
    for (std::size_t s = 0; s < kSegments; ++s)
      for (auto i = static_cast<std::size_t>(next[s]); i < static_cast<std::size_t>(next[s + 1]);
           ++i)
        for (std::size_t j = i % 7; j < kColumns; j += 7) {
          double want = 0;
          for (std::size_t k = 0; k < kDepth; ++k)
            want += a[i * kDepth + k] * b[(s * kDepth + k) * kColumns + j];
          ASSERT_EQ(c[i * kColumns + j], want) << seed << ": segment " << s << " row " << i;
        }
    for (auto i = static_cast<std::size_t>(next.back()) * kColumns; i < c.size(); ++i)
      ASSERT_EQ(c[i], -77) << "after the last segment";
  }
}

}  // namespace
}  // namespace tegula::test::segments_test
