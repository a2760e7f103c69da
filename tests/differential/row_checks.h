#pragma once
// Rows of tensors against references in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tegula/tensor.h"

namespace tegula::test {

using Doubles = std::vector<double>;

/// Largest error of a result of this type that is rounded once, relative to its size.
inline double rounding_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-8 : dtype == DType::f16 ? 0x1p-11 : 0x1p-18;
}

/// Compares elements with a bound that is relative to the element, or to `scale` where that is
/// larger. NaN matches NaN, an infinity itself.
inline void expect_elements(const Tensor& got, const Doubles& want, double scale = 1,
                            double factor = 1) {
  const Doubles all = got.to_doubles();
  ASSERT_EQ(all.size(), want.size());
  const double bound = factor * rounding_of(got.dtype());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(want[i])) {
      ASSERT_TRUE(std::isnan(all[i])) << "element " << i << " is " << all[i];
    } else if (std::isinf(want[i])) {
      ASSERT_EQ(all[i], want[i]) << "element " << i;
    } else {
      ASSERT_LE(std::abs(all[i] - want[i]), bound * std::max(scale, std::abs(want[i])))
          << "element " << i << " is " << all[i] << ", not " << want[i];
    }
  }
}

/// Random elements of rows. Those of a misaligned tensor begin one element after a 16-byte
/// boundary, and its rows are an odd number of elements apart.
inline Tensor random_rows(const Dims& shape, DType dtype, std::uint64_t seed, Device device,
                          bool is_aligned = true) {
  Dims wide = shape;
  const int last = static_cast<int>(shape.size()) - 1;
  wide[last] = is_aligned ? shape[last] : (shape[last] + 2) | 1;
  const Tensor t = Tensor::normal(wide, dtype, 0, 1.5, seed, device);
  return is_aligned ? t : t.slice(last, 1, shape[last] + 1);
}

/// Returns a tensor that has not been written.
inline Tensor unwritten_rows(const Dims& shape, DType dtype, Device device,
                             bool is_aligned = true) {
  const Tensor like = random_rows(shape, dtype, 0, device, is_aligned);
  like.copy_from(Tensor::full(shape, 12345, dtype, device));
  return like;
}

/// Calls `f(rows, columns, dtype, is_aligned)` with shapes that a tile fits and does not fit, empty
/// ones among them.
template <class F>
void for_row_shapes(const std::vector<Dims>& shapes, const F& f) {
  for (const Dims& shape : shapes)
    for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
      const bool is_aligned = shape[0] % 2 == 1;
      SCOPED_TRACE(testing::Message() << name(dtype) << shape.str());
      f(shape[0], shape[1], dtype, is_aligned);
    }
}

}  // namespace tegula::test
