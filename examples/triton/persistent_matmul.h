#pragma once
// Triton's tutorial 09, persistent matrix multiplication by TMA. The same loops as any product: the
// compiler makes it persistent, and stores by TMA where the grid asks for that.
#include <tegula/tegula.h>

namespace tegula::tutorials {

inline auto persistent_matmul() {
  return kernel("persistent_matmul", [](In<f16, 2> A, In<f16, 2> B, Out<f16, 2> C) {
    for (auto [m, n] : grid(C, 128, 256, group_m(8), multicast(true), tma_store(true))) {
      Tile acc = zeros<f32>(128, 256);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(n, k).T(), acc);
      C(m, n) = acc;
    }
  });
}

}  // namespace tegula::tutorials
