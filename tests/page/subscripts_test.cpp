// Compiles and runs the kernels of docs/language/subscripts.md unchanged.
#include "tests/page/page.h"

namespace tegula::page::subscripts_test {
namespace {

class Subscripts : public Page {};

TEST_P(Subscripts, Embedding) {
#include "subscripts_1.inc"
  const Tensor table = iota_of({10, 16}, DType::bf16),
               tokens = Tensor::from(std::vector<std::int32_t>{3, -1, 9, 3, 12}, {5}, device()),
               y = empty_of({5, 16}, DType::bf16);
  embedding(table, tokens, y);
  const auto out = y.to_doubles();
  const int rows[] = {3, -1, 9, 3, -1};
  for (int i = 0; i < 5; ++i)
    for (int c = 0; c < 16; ++c) EXPECT_EQ(out[i * 16 + c], rows[i] < 0 ? 0 : rows[i] * 16 + c);
}

TEST_P(Subscripts, Combine) {
#include "subscripts_2.inc"
  const Tensor row_of =
                   Tensor::from(std::vector<std::int32_t>{0, 2, -1, 1, 3, 3}, {3, 2}, device()),
               O = empty_of({3, 130});
  combine(iota_of({4, 130}), row_of, ones_of({3, 2}), O);
  const auto out = O.to_doubles();
  for (int c = 0; c < 130; ++c) {
    EXPECT_EQ(out[c], 260 + 2 * c);
    EXPECT_EQ(out[130 + c], 130 + c);
    EXPECT_EQ(out[260 + c], 2 * (390 + c));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Subscripts, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::subscripts_test
