#pragma once
// The Walsh-Hadamard transform against its definition in double.
#include <bit>

#include "tegula/kernels/hadamard.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

/// The matrix' entry in row i and column j is 1 where i and j have an even number of bits in
/// common.
inline Doubles hadamard_of(const Doubles& x, std::int64_t columns, double scale) {
  Doubles y = x;
  for (std::size_t row = 0; row + columns <= y.size(); row += columns)
    for (std::int64_t stride = 1; stride < columns; stride *= 2)
      for (std::int64_t i = 0; i < columns; ++i)
        if ((i & stride) == 0) {
          const double a = y[row + i], b = y[row + i + stride];
          y[row + i] = a + b, y[row + i + stride] = a - b;
        }
  for (double& v : y) v *= scale;
  return y;
}

inline void check_hadamards(Device device) {
  const std::vector<Dims> shapes{{1, 2},   {0, 64},   {67, 8},   {5, 64},    {4, 128},
                                 {9, 512}, {3, 1024}, {3, 4096}, {2, 16384}, {1, 32768}};
  for_row_shapes(
      shapes, [&](std::int64_t rows, std::int64_t columns, DType dtype, bool is_aligned) {
        const Tensor x = random_rows({rows, columns}, dtype, 1, device, is_aligned),
                     y = unwritten_rows({rows, columns}, dtype, device, is_aligned);
        const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(columns)));
        hadamard(Stream(device), x, y, scale);
        expect_elements(y, hadamard_of(x.to_doubles(), columns, scale), 2);
      });
}

/// A single 1: the result is a column of the matrix, whose signs distinguish all orders.
inline void check_hadamard_matrix(Device device) {
  for (const std::int64_t columns : {16, 2048, 4096}) {
    Doubles unit(static_cast<std::size_t>(4 * columns), 0);
    for (std::int64_t r = 0; r < 4; ++r) unit[r * columns + (r * 5 + 3) % columns] = 1;
    const Tensor x = Tensor::from(unit, {4, columns}, Device::cpu()).cast(DType::f32).to(device),
                 y = unwritten_rows({4, columns}, DType::f32, device);
    hadamard(Stream(device), x, y, 1);
    Doubles want;
    for (std::int64_t r = 0; r < 4; ++r)
      for (std::int64_t i = 0; i < columns; ++i)
        want.push_back(
            std::popcount(static_cast<std::uint64_t>(i & ((r * 5 + 3) % columns))) % 2 ? -1 : 1);
    EXPECT_EQ(y.to_doubles(), want);
  }
}

}  // namespace tegula::test
