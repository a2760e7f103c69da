// Compiles and runs the kernels of docs/language/absence.md unchanged.
#include "tests/page/page.h"

namespace tegula::page::absence_test {
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

TEST_P(Absence, LeastOfSumsOverColumns) {
#include "absence_6.inc"
  const Tensor x = Tensor::full({20, 100}, 2, DType::f32, device()), least = empty_of({1});
  smallest_norm(x, least);
  EXPECT_EQ(least.to_doubles(), (std::vector<double>{400}));
}

TEST_P(Absence, CroppedRows) {
#include "absence_7.inc"
  const Tensor lengths = Tensor::from(std::vector<std::int32_t>{0, 5, 100, 300}, {4}, device()),
               y = empty_of({4});
  sums_of_lengths(ones_of({4, 100}), lengths, y);
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{0, 5, 100, 100}));
}

TEST_P(Absence, PaddingTakesTheChosenBranch) {
#include "absence_2.inc"
  const Tensor y = Tensor::full({300}, -1, DType::f32, device());
  padded(ones_of({90}), y);
  const auto out = y.to_doubles();
  for (int i = 0; i < 300; ++i) ASSERT_EQ(out[i], i < 90 ? 1 : 0) << i;
}

TEST_P(Absence, AnElementThatNamesARow) {
#include "absence_4.inc"
  const Tensor ids = Tensor::from(std::vector<std::int32_t>{3, 1}, {2}, device()),
               y = empty_of({3, 64});
  rows_of_table(iota_of({10, 64}), ids, y);
  const auto out = y.to_doubles();
  for (int c = 0; c < 64; ++c) {
    EXPECT_EQ(out[c], 3 * 64 + c);
    EXPECT_EQ(out[64 + c], 64 + c);
    EXPECT_EQ(out[128 + c], c);
  }
}

TEST_P(Absence, AccumulatorKeepsElementsAbsentInAnIteration) {
#include "absence_5.inc"
  const Tensor mean = empty_of({3});
  row_means(iota_of({3, 300}), mean);
  EXPECT_EQ(mean.to_doubles(), (std::vector<double>{149.5, 449.5, 749.5}));
}

TEST_P(Absence, ABranchDecides) {
  const auto chosen = kernel("chosen", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 128)) {
      Tile v = full<f32>(7, 128);
      if_(i.first() == 0, [&] { v = v + 1.0f; }, [&] { v = fill_absent(x(i), 3); });
      y(i) = v;
    }
  });
  const Tensor y = empty_of({200});
  chosen(ones_of({130}), y);
  const auto out = y.to_doubles();
  for (int i = 0; i < 200; ++i) ASSERT_EQ(out[i], i < 128 ? 8 : i < 130 ? 1 : 3) << i;
}

TEST_P(Absence, AnElementOutsideIsNothing) {
  const auto element = kernel("element", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 1)) y(i) = fill_absent(x(i), 5) + 1.0f;
  });
  const Tensor y = empty_of({3});
  element(ones_of({2}), y);
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{2, 2, 6}));
}

INSTANTIATE_TEST_SUITE_P(Devices, Absence, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::absence_test
