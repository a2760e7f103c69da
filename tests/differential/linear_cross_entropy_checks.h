#pragma once
// Cross entropy with its linear layer against the same in double.
#include "tegula/kernels/linear_cross_entropy.h"
#include "tests/differential/cross_entropy_checks.h"

namespace tegula::test {
using namespace kernels;

struct LinearCase {
  std::int64_t tokens, features, classes, held;
};

/// a [m, k] times b [k, n], either of which may be transposed in memory.
struct MatrixView {
  const Doubles& values;
  std::int64_t rows, columns;
  bool is_transposed = false;

  double at(std::int64_t i, std::int64_t j) const {
    return is_transposed ? values[j * rows + i] : values[i * columns + j];
  }
};
inline Doubles product_of(const MatrixView& a, const MatrixView& b) {
  Doubles c;
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.columns; ++j) {
      double total = 0;
      for (std::int64_t k = 0; k < a.columns; ++k) total += a.at(i, k) * b.at(k, j);
      c.push_back(total);
    }
  return c;
}

inline void check_linear_cross_entropy(const LinearCase& c, DType dtype, Device device) {
  const auto small = [&](const Dims& shape, DType type, std::uint64_t seed) {
    return Tensor::normal(shape, type, 0, 0.5, seed, device);
  };
  const Tensor x = small({c.tokens, c.features}, dtype, 1),
               weight = small({c.classes, c.features}, dtype, 2),
               dloss = small({c.tokens}, DType::f32, 3),
               labels = labels_of(c.tokens, c.classes, DType::i32, device),
               before = small({c.classes, c.features}, DType::f32, 4);
  const Tensor logits = unwritten_rows({c.held, c.classes}, dtype, device),
               loss = unwritten_rows({c.tokens}, DType::f32, device),
               lse = unwritten_rows({c.tokens}, DType::f32, device),
               dx = unwritten_rows({c.tokens, c.features}, dtype, device), dweight = before.clone();
  const CrossEntropyOptions options{.label_smoothing = 0.1f};
  const Stream stream(device);
  linear_cross_entropy(stream, x, weight, labels, logits, loss, lse, {dloss, dx, dweight}, options);

  const Doubles xs = x.to_doubles(), ws = weight.to_doubles(), g = dloss.to_doubles();
  CrossEntropyReference want{
      c.classes, options, product_of({xs, c.tokens, c.features}, {ws, c.features, c.classes, true}),
      labels.to_doubles()};
  for (std::int64_t r = 0; r < c.tokens; ++r) want.row(r, g[r]);
  expect_elements(loss, want.loss, 4, dtype == DType::f32 ? 4 : 2e4);
  expect_elements(dx, product_of({want.gradient, c.tokens, c.classes}, {ws, c.classes, c.features}),
                  4);
  Doubles sums = product_of({want.gradient, c.classes, c.tokens, true}, {xs, c.tokens, c.features});
  const Doubles start = before.to_doubles();
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += start[i];
  expect_elements(dweight, sums, 4, dtype == DType::f32 ? 4 : 2e4);
  linear_cross_entropy(stream, x, weight, labels, logits, loss, lse, {}, options);
  expect_elements(loss, want.loss, 4, dtype == DType::f32 ? 4 : 2e4);
}

inline void check_linear_cross_entropies(Device device) {
  for (const LinearCase& c :
       {LinearCase{1, 8, 3, 4}, LinearCase{0, 8, 3, 4}, LinearCase{5, 0, 3, 4},
        LinearCase{100, 64, 130, 48}, LinearCase{70, 40, 300, 70}})
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
      SCOPED_TRACE(testing::Message()
                   << name(dtype) << " " << c.tokens << " x " << c.features << " x " << c.classes);
      check_linear_cross_entropy(c, dtype, device);
    }
}

}  // namespace tegula::test
