// Compiles and runs the kernels of docs/language/index-types.md unchanged.
#include "tests/page/page.h"

namespace tegula::page::index_types_test {
namespace {

class IndexTypes : public Page {};

Tensor large(const Dims& shape, DType dtype) {
  return Tensor::borrow(reinterpret_cast<void*>(0x7f0000000000), shape, dtype, Device::cuda());
}

TEST_P(IndexTypes, APositionKeepsItsTypeAtEverySize) {
#include "index_types_1.inc"
  const Tensor x = Tensor::normal({7, 3000}, DType::f32, 0, 1, 1, device()),
               y = empty_of({7}, DType::i32);
  row_argmax(x, y);
  const auto in = x.to_doubles(), out = y.to_doubles();
  for (int r = 0; r < 7; ++r) {
    const auto row = in.begin() + r * 3000;
    EXPECT_EQ(out[r], std::max_element(row, row + 3000) - row);
  }
  EXPECT_NE(
      row_argmax.trace(large({1'000'000, 4096}, DType::f32), large({1'000'000}, DType::i32)).text(),
      "");
}

TEST(IndexType, AVariableMayNotBecomeAnIndexAtAnySize) {
  const auto k = kernel("becomes_index", [](In<f32, 2> x, Out<i32, 1> y) {
    for (auto r : grid(y, 1)) {
      Tile at = full<i32>(0);
      for (auto c : steps(x.cols(), 1024)) at = at + c.first();
      y(r) = at;
    }
  });
  for (const std::int64_t rows : {1000, 1'000'000})
    EXPECT_EQ(code_of([&] { k.trace(large({rows, 4096}, DType::f32), large({rows}, DType::i32)); }),
              "T0303")
        << rows;
}

TEST(IndexType, DependsOnTheSizeOfTensors) {
  const auto widths = [](std::int64_t rows) {
    DType first = DType::f32;
    const auto k = kernel("widths", [&first](In<f32, 2> x, Out<f32, 1> y) {
      for (auto r : grid(y, 1)) {
        first = r.first().dtype();
        y(r) = sum(x(r, all));
      }
    });
    k.trace(large({rows, 4096}, DType::f32), large({rows}, DType::f32));
    return first;
  };
  EXPECT_EQ(widths(1000), DType::i32);
  EXPECT_EQ(widths(1'000'000), DType::i64);
}

INSTANTIATE_TEST_SUITE_P(Devices, IndexTypes, cpu_and_sim(), name_of);

}  // namespace
}  // namespace tegula::page::index_types_test
