#pragma once
// Triton's tutorial 03, matrix multiplication with an activation.
#include <tegula/tegula.h>

namespace tegula::tutorials {

inline auto matmul() {
  return kernel("matmul", [](In<f16, 2> A, In<f16, 2> B, Out<f16, 2> C) {
    const int BM = tune("BM", {64, 128}, 128), BN = tune("BN", {64, 128, 256}, 256);
    for (auto [m, n] : grid(C, BM, BN, group_m(8))) {
      Tile acc = zeros<f32>(BM, BN);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = where(acc >= 0.0f, acc, 0.01f * acc);
    }
  });
}

}  // namespace tegula::tutorials
