#pragma once
// Triton's tutorial 10, a product of 8-bit floats with a scale for each row and 128 elements along
// k, which are multiplied in the kernel: A [m, k], B [n, k], scales [m or n, k / 128].
#include <tegula/tegula.h>

namespace tegula::tutorials {

inline auto block_scaled_matmul() {
  return kernel("block_scaled_matmul", [](In<f8e4m3, 2> A, In<f32, 2> a_scales, In<f8e4m3, 2> B,
                                          In<f32, 2> b_scales, Out<f16, 2> C) {
    for (auto [m, n] : grid(C, 128, 128, group_m(8))) {
      Tile acc = zeros<f32>(128, 128);
      for (auto k : steps(A.cols(), 128)) {
        const Tile part = k.first() / 128, sums = dot(A(m, k), B(n, k).T());
        acc += sums * a_scales(m, part)(all, none) * b_scales(n, part)(none, all);
      }
      C(m, n) = acc;
    }
  });
}

}  // namespace tegula::tutorials
