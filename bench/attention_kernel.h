#pragma once
// Attention written in the language, with a mask and a distance in its scores. Used to measure
// compilation, and as a kernel outside the library that must be optimized like the library's.
#include "tegula/tegula.h"

namespace tegula::bench {

inline auto attention_with_distances() {
  return kernel("attention", [](In<bf16, 4> Q, In<bf16, 4> K, In<bf16, 4> V, Out<bf16, 4> O,
                                Scalar<f32> scale) {
    const int D = Q.static_dim(3);
    for (auto [b, h, m] : grid(O, 1, 1, 128, balanced_pairs)) {
      Tile q = Q(b, h, m, all), o = zeros<f32>(128, D), top = full<f32>(-1e30f, 128),
           l = zeros<f32>(128);
      const Tile rows = expand(m, 1);
      for (auto n : steps(K.dim(2), 64)) {
        const Tile kv = expand(n, 0);
        Tile s = dot(q, K(b, h, n, all).T()) * scale;
        s = where(rows >= kv && rows - kv < 1024, s + cast<f32>(kv - rows) * 0.01f, -inf);
        const Tile now = max(top, max(s, axis(1))), p = exp2(s - expand(now, 1)),
                   r = exp2(top - now);
        l = l * r + sum(p, 1);
        o = dot(cast<bf16>(p), V(b, h, n, all), o * expand(r, 1));
        top = now;
      }
      O(b, h, m, all) = o * expand(rcp(l), 1);
    }
  });
}

}  // namespace tegula::bench
