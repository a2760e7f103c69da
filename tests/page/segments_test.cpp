// Compiles and runs the kernels of docs/language/segments.md unchanged.
#include "tests/page/page.h"

namespace tegula::page::segments_test {
namespace {

class Segments : public Page {
 protected:
  static Tensor table(const std::vector<std::int32_t>& values) {
    return Tensor::from(values, device());
  }
};
const std::vector<std::int32_t> kOffsets{0, 5, 5, 40};

TEST_P(Segments, GroupedProduct) {
#include "segments_1.inc"
  const Tensor A = Tensor::integers({40, 64}, DType::bf16, -2, 2, 1, device()),
               B = Tensor::integers({3, 64, 128}, DType::bf16, -2, 2, 2, device()),
               C = empty_of({40, 128}, DType::bf16);
  grouped_matmul(A, B, table(kOffsets), C);
  const auto a = A.to_doubles(), b = B.to_doubles(), c = C.to_doubles();
  for (int i = 0; i < 40; ++i)
    for (int j = 0; j < 128; ++j) {
      double sum = 0;
      for (int k = 0; k < 64; ++k) sum += a[i * 64 + k] * b[((i < 5 ? 0 : 2) * 64 + k) * 128 + j];
      ASSERT_EQ(c[i * 128 + j], sum) << i << " " << j;
    }
}

TEST_P(Segments, CountedTiles) {
#include "segments_2.inc"
  const Tensor y = empty_of({40});
  sums_of_rows(iota_of({40, 8}), table(kOffsets), table({0, 1, 1, 3}), y);
  const auto out = y.to_doubles();
  for (int i = 0; i < 40; ++i) EXPECT_EQ(out[i], 64 * i + 28) << i;
}

TEST_P(Segments, BoundedSteps) {
#include "segments_3.inc"
  const Tensor A = Tensor::integers({40, 64}, DType::bf16, -2, 2, 1, device()),
               G = Tensor::integers({40, 64}, DType::bf16, -2, 2, 2, device()),
               W = empty_of({3, 64, 64});
  grouped_gradient(A, G, table(kOffsets), W);
  const auto a = A.to_doubles(), g = G.to_doubles(), w = W.to_doubles();
  for (int s = 0; s < 3; ++s)
    for (int i = 0; i < 64; ++i)
      for (int j = 0; j < 64; ++j) {
        double sum = 0;
        for (int r = kOffsets[s]; r < kOffsets[s + 1]; ++r) sum += a[r * 64 + i] * g[r * 64 + j];
        ASSERT_EQ(w[(s * 64 + i) * 64 + j], sum) << s << " " << i << " " << j;
      }
}

INSTANTIATE_TEST_SUITE_P(Devices, Segments, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::segments_test
