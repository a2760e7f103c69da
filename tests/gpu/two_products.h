#pragma once
// Two back-to-back MMAs without a softmax between them: the second takes the first's result from
// registers, another at each iteration.
#include "tegula/tegula.h"

namespace tegula {

/// O = bf16(Q K^T) V of each head, `step` keys at a time.
inline auto two_products(int step) {
  return kernel("products", [step](In<bf16, 3> Q, In<bf16, 3> K, In<bf16, 3> V, Out<bf16, 3> O) {
    const int D = Q.static_dim(2);
    for (auto [h, m] : grid(O, 1, 128)) {
      const Tile q = Q(h, m, all);
      Tile o = zeros<f32>(128, D);
      for (auto n : steps(K.dim(1), step))
        o = dot(cast<bf16>(dot(q, K(h, n, all).T())), V(h, n, all), o);
      O(h, m, all) = o;
    }
  });
}

}  // namespace tegula
