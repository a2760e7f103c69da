#pragma once
// Triton's tutorial 10, a GEMM of 8-bit floats with a scale for each row and 128 elements along k.
// The kernel multiplies by the scales. A [m, k], B [n, k], scales [m or n, k / 128].
#include <tegula/tegula.h>

namespace tegula::tutorials {

inline auto block_scaled_matmul() {
  return kernel("block_scaled_matmul",
                [](In<f8e4m3, 2> A, In<f32, 2> a_scales, In<f8e4m3, 2> B, In<f32, 2> b_scales,
                   Out<f16, 2> C) {
                  for (auto [m, n] : grid(C, 128, 128, group_m(8))) {
                    Tile acc = zeros<f32>(128, 128);
                    // The next iteration's scales are in flight during the dot.
                    Tile by_row = fill_absent(a_scales(m, 0), 0),
                         by_column = fill_absent(b_scales(n, 0), 0);
                    for (auto k : steps(A.cols(), 128)) {
                      const Tile next = k.first() / 128 + 1, sums = dot(A(m, k), B(n, k).T());
                      const Tile scales = by_row(all, none) * by_column(none, all);
                      by_row = fill_absent(a_scales(m, next), 0);
                      by_column = fill_absent(b_scales(n, next), 0);
                      acc = fma(sums, scales, acc);
                    }
                    C(m, n) = acc;
                  }
                })
      .named("A[M, K]", "a_scales[M, parts]", "B[N, K]", "b_scales[N, parts]", "C[M, N]");
}

}  // namespace tegula::tutorials
