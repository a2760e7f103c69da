#pragma once
// Triton's tutorial 09, persistent matrix multiplication by TMA. The loops are those of any GEMM:
// the compiler makes it persistent, and stores by TMA because the kernel prefers that.
#include <tegula/tegula.h>

namespace tegula::tutorials {

inline auto persistent_matmul() {
  const auto product = [](In<f16, 2> A, In<f16, 2> B, Out<f16, 2> C) {
    for (auto [m, n] : grid(C, 128, 256, group_m(8))) {
      Tile acc = zeros<f32>(128, 256);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(n, k).T(), acc);
      C(m, n) = acc;
    }
  };
  return kernel("persistent_matmul", product).prefer({.tma_store = true, .multicast = true});
}

}  // namespace tegula::tutorials
