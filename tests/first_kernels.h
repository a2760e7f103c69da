#pragma once
// The kernels that a newcomer writes first, for tests of their traces and of their results.
#include "tegula/tegula.h"

namespace tegula::test {

inline auto vector_add() {
  return kernel("add", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
    for (auto i : grid(z, 1024)) z(i) = x(i) + y(i);
  });
}

inline auto row_softmax() {
  return kernel("softmax", [](In<bf16, 2> x, Out<bf16, 2> y) {
    for (auto r : grid(rows(y), 1)) {
      auto v = cast<f32>(x(r, all));
      auto e = exp(v - max(v));
      y(r, all) = e / sum(e);
    }
  });
}

/// Computes the scores of one block of keys at a time and carries the maxima and sums of rows.
template <class Mask, class Score>
auto attention(Mask mask, Score score) {
  return kernel("attention", [=](In<bf16, 4> Q, In<bf16, 4> K, In<bf16, 4> V, Out<bf16, 4> O,
                                 Scalar<f32> scale) {
    int BM = tune("BM", {16, 64, 128, 192}, 64), BN = tune("BN", {16, 64, 96, 128}, 64),
        D = Q.static_dim(3);
    auto G = Q.dim(1) / K.dim(1);
    for (auto [b, h, m] : grid(O, 1, 1, BM, balanced_pairs)) {
      auto q = Q(b, h, m, all), o = zeros<f32>(BM, D);
      auto top = full<f32>(-1e30f, BM), l = zeros<f32>(BM);
      auto rows = expand(m, 1);
      for (auto n : steps(K.dim(2), BN)) {
        auto s = dot(q, K(b, h / G, n, all).T()) * scale;
        auto columns = expand(n, 0);
        s = where(mask(b, h, rows, columns), score(s, b, h, rows, columns), -inf);
        auto now = max(top, max(s, axis(1)));
        auto p = exp(s - expand(now, 1));
        auto r = exp(top - now);
        l = l * r + sum(p, 1);
        o = dot(cast<bf16>(p), V(b, h / G, n, all), o * expand(r, 1));
        top = now;
      }
      O(b, h, m, all) = o / expand(l, 1);
    }
  });
}

}  // namespace tegula::test
