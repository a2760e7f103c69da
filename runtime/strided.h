#pragma once
// Iteration over strided host memory.
#include <cstdint>

#include "tegula/tensor.h"

namespace tegula::runtime {

/// Returns the row-major strides of a shape, in elements.
inline Dims row_major(const Dims& shape) {
  Dims strides = Dims::filled(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * (shape[i] > 0 ? shape[i] : 1);
  return strides;
}

/// Calls f(linear, offset of `a`, offset of `b`) for every row along the last dimension, in
/// row-major order; offsets count elements. A shape of rank 0 has one row of one element.
template <class F>
void for_each_row(const Dims& shape, const Dims& a, const Dims& b, F&& f) {
  for (std::int64_t extent : shape)
    if (extent == 0) return;
  const std::size_t outer = shape.empty() ? 0 : shape.size() - 1;
  const std::int64_t row = shape.empty() ? 1 : shape[outer];
  Dims index = Dims::filled(outer, 0);
  std::int64_t linear = 0, at_a = 0, at_b = 0;
  for (;;) {
    f(linear, at_a, at_b);
    linear += row;
    std::size_t d = outer;
    for (; d > 0; --d) {
      at_a += a[d - 1];
      at_b += b[d - 1];
      if (++index[d - 1] < shape[d - 1]) break;
      at_a -= a[d - 1] * shape[d - 1];
      at_b -= b[d - 1] * shape[d - 1];
      index[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

/// Copies elements of `bytes` bytes between two host arrays of one shape.
void copy_strided(void* to, const Dims& to_strides, const void* from, const Dims& from_strides,
                  const Dims& shape, int bytes);

}  // namespace tegula::runtime
