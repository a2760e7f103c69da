#pragma once
// Triton's tutorial 06, fused attention, forward: [batch * heads, length, dim].
#include <tegula/tegula.h>

namespace tegula::tutorials {

inline auto attention() {
  return kernel("attention", [](In<f16, 3> Q, In<f16, 3> K, In<f16, 3> V, Out<f16, 3> O,
                                Scalar<f32> scale, bool is_causal) {
    // The work of a causal tile grows with its index.
    for (auto [b, m] : grid({O.dim(0), O.dim(1)}, 1, 128, BalancedPairs{is_causal})) {
      const Tile q = fill_absent(Q(b, m, all), 0), by = scale * 1.44269504f;
      Tile top = full<f32>(-inf, 128), total = zeros<f32>(128), acc = zeros<f32>(128, q.dim(1));
      const Tile end = is_causal ? min(m.first() + 128, K.dim(1)) : K.dim(1);
      for (auto n : steps(end, 128)) {
        // Keys past the end have weight 0.
        const Tile keys = n.indices()(none, all), k = fill_absent(K(b, n, all), 0);
        Tile is_seen = keys < K.dim(1);
        if (is_causal) is_seen = is_seen && m.indices()(all, none) >= keys;
        const Tile s = where(is_seen, dot(q, k.T()) * by, -inf);
        const Tile next = max(top, max(s, axis(1))), keep = exp2(top - next);
        const Tile p = exp2(s - next(all, none));
        total = total * keep + sum(p, 1);
        acc = dot(cast<f16>(p), V(b, n, all), acc * keep(all, none));
        top = next;
      }
      O(b, m, all) = acc / total(all, none);
    }
  });
}

}  // namespace tegula::tutorials
