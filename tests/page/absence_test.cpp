// The kernels of docs/language/absence.md, as they stand there.
#include "tests/page/page.h"

namespace tegula::page {
namespace {

class Absence : public Page {};

TEST_P(Absence, RaggedRowsOfSoftmax) {
#include "absence_1.inc"
  const Tensor x = Tensor::normal({5, 77}, DType::f32, 0, 1, 1, device()), y = empty_of({5, 77});
  softmax_rows(x, y);
  const auto out = y.to_doubles();
  for (int r = 0; r < 5; ++r)
    EXPECT_NEAR(std::accumulate(out.begin() + r * 77, out.begin() + (r + 1) * 77, 0.0), 1, 1e-5);
}

TEST_P(Absence, GatherWithAnotherValue) {
#include "absence_3.inc"
  const Tensor table = iota_of({10, 64}),
               tokens = Tensor::from(std::vector<std::int32_t>{3, -1, 12, 0}, {4}, device()),
               y = empty_of({4, 64});
  embedded(table, tokens, y);
  const auto out = y.to_doubles();
  for (int c = 0; c < 64; ++c) {
    EXPECT_EQ(out[c], 3 * 64 + c);
    EXPECT_EQ(out[64 + c], 1);
    EXPECT_EQ(out[128 + c], 0) << "token 12 of 10";
    EXPECT_EQ(out[192 + c], c);
  }
}

TEST_P(Absence, CroppedRows) {
#include "absence_5.inc"
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>{0, 5, 100, 300}, {4}, device()),
               y = empty_of({4});
  sums_of_lengths(ones_of({4, 100}), lengths, y);
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{0, 5, 100, 100}));
}

/// Traced here; what they compute is the business of tests of absence.
TEST_P(Absence, PaddingAndRaggedSumsTrace) {
#include "absence_2.inc"
#include "absence_4.inc"
  EXPECT_NE(padded.trace(ones_of({90}), empty_of({100})).text(), "");
  EXPECT_NE(row_means.trace(ones_of({3, 300}), empty_of({3})).text(), "");
}

INSTANTIATE_TEST_SUITE_P(Devices, Absence, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page
