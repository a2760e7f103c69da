#pragma once
// Softmax and its gradient against references in double.
#include "tegula/kernels/softmax.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

inline Doubles softmax_of(const Doubles& x, std::int64_t columns) {
  Doubles y(x.size());
  for (std::size_t r = 0; r + columns <= x.size() && columns > 0; r += columns) {
    double top = -INFINITY, total = 0;
    for (std::int64_t i = 0; i < columns; ++i) top = std::fmax(top, x[r + i]);
    for (std::int64_t i = 0; i < columns; ++i) total += y[r + i] = std::exp(x[r + i] - top);
    for (std::int64_t i = 0; i < columns; ++i) y[r + i] /= total;
  }
  return y;
}

inline void check_softmax(const Tensor& x, bool is_aligned) {
  const Tensor y = unwritten_rows(x.shape(), x.dtype(), x.device(), is_aligned);
  softmax(Stream(x.device()), x, y);
  expect_elements(y, softmax_of(x.to_doubles(), x.size(1)), 1e-3);
}

inline void check_softmax_backward(const Tensor& y, const Tensor& dy, bool is_aligned) {
  const Tensor dx = unwritten_rows(y.shape(), y.dtype(), y.device(), is_aligned);
  softmax_backward(Stream(y.device()), y, dy, dx);
  const Doubles p = y.to_doubles(), g = dy.to_doubles();
  Doubles want;
  const std::int64_t columns = y.size(1);
  for (std::int64_t r = 0; r < y.size(0); ++r) {
    double dot = 0;
    for (std::int64_t i = 0; i < columns; ++i) dot += p[r * columns + i] * g[r * columns + i];
    for (std::int64_t i = 0; i < columns; ++i)
      want.push_back(p[r * columns + i] * (g[r * columns + i] - dot));
  }
  expect_elements(dx, want, 1e-2);
}

inline void check_softmaxes(Device device) {
  const std::vector<Dims> shapes{{1, 1},     {0, 64},    {5, 0},     {67, 7},    {130, 64},
                                 {33, 100},  {9, 1000},  {6, 1024},  {5, 2049},  {3, 8192},
                                 {2, 20000}, {3, 40000}, {2, 70000}, {1, 140001}};
  for_row_shapes(shapes,
                 [&](std::int64_t rows, std::int64_t columns, DType dtype, bool is_aligned) {
                   const auto normal = [&](std::uint64_t seed) {
                     return random_rows({rows, columns}, dtype, seed, device, is_aligned);
                   };
                   check_softmax(normal(1), is_aligned);
                   const Tensor y = unwritten_rows({rows, columns}, dtype, device, is_aligned);
                   softmax(Stream(device), normal(2), y);
                   check_softmax_backward(y, normal(3), is_aligned);
                 });
}

/// Rows with NaN, inf, parts of -inf and nothing but -inf, held and streamed.
inline void check_softmax_of_no_numbers(Device device) {
  for (const std::int64_t columns : {100, 3000, 40000}) {
    SCOPED_TRACE(columns);
    Doubles values = Tensor::normal({6, columns}, DType::f32, 0, 2, 1, Device::cpu()).to_doubles();
    const auto fill = [&](std::int64_t row, std::int64_t begin, std::int64_t end, double value) {
      std::fill_n(values.begin() + row * columns + begin, end - begin, value);
    };
    fill(0, 5, 6, std::nan("")), fill(1, columns - 1, columns, INFINITY);
    fill(2, 0, columns, -INFINITY), fill(3, 0, columns / 2, -INFINITY);
    fill(4, 1, columns, -INFINITY);
    check_softmax(Tensor::from(values, {6, columns}, Device::cpu()).cast(DType::f32).to(device),
                  true);
  }
}

}  // namespace tegula::test
