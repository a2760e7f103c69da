#pragma once
// Kernels outside the library, written without tuning, whose loops contain several dependent dots:
// attention gradients in one loop, a fused MLP, a chunk of linear attention.
#include "tegula/tegula.h"

namespace tegula::bench {

/// Attention gradients in one loop over blocks of `bq` queries, for `bk` keys per program. All
/// tensors are [batch * heads, length, dim]. L has each query's log2 of its sum of exponentials, D
/// the dot product of its output and the output's gradient. dQ must be zero initially. `scale` is
/// the score scale times log2 e; the caller must multiply dQ and dK by the score scale. The length
/// must be a multiple of both blocks.
inline auto attention_gradients(int bq, int bk, bool causal) {
  return kernel("attention_gradients", [=](In<bf16, 3> Q, In<bf16, 3> K, In<bf16, 3> V,
                                           In<bf16, 3> dO, In<f32, 2> L, In<f32, 2> D,
                                           InOut<f32, 3> dQ, Out<bf16, 3> dK, Out<bf16, 3> dV,
                                           Scalar<f32> scale) {
    const int dim = Q.static_dim(2);
    for (auto [b, n] : grid({K.dim(0), K.dim(1)}, 1, bk)) {
      const auto all_inside = [first = b.first()](const Index& i, int block, const auto&... views) {
        (assume(first < views.dim(0)), ...);
        (assume(i.first() + block <= views.dim(1)), ...);
      };
      all_inside(n, bk, K, V);
      const Tile k = K(b, n, all), v = V(b, n, all);
      Tile dk = zeros<f32>(bk, dim), dv = zeros<f32>(bk, dim);
      const Tile first = causal ? n.first() / bq * bq : Tile(0);
      for (auto m : steps(first, Q.dim(1), bq)) {
        all_inside(m, bq, Q, dO, L, D, dQ);
        const Tile q = Q(b, m, all), grad = dO(b, m, all);
        Tile p = exp2(dot(k, q.T()) * scale - expand(L(b, m), 0));
        if (causal) p = where(expand(n, 1) <= expand(m, 0), p, 0.0f);
        dv = dot(cast<bf16>(p), grad, dv);
        const Tile ds = cast<bf16>(p * (dot(v, grad.T()) - expand(D(b, m), 0)));
        dk = dot(ds, q, dk);
        atomic_add(dQ(b, m, all), dot(ds.T(), k));
      }
      dK(b, n, all) = dk;
      dV(b, n, all) = dv;
    }
  });
}

/// Y = gelu(X W1) W2, with the hidden layer on chip, `bh` columns at a time.
inline auto fused_mlp(int bm, int bh) {
  return kernel("fused_mlp", [=](In<bf16, 2> X, In<bf16, 2> W1, In<bf16, 2> W2, Out<bf16, 2> Y) {
    const int width = W2.static_dim(1);
    for (auto m : grid(rows(Y), bm)) {
      const Tile x = X(m, all);
      Tile y = zeros<f32>(bm, width);
      for (auto h : steps(W1.cols(), bh)) {
        const Tile hidden = gelu_tanh_approx(dot(x, W1(all, h)));
        y = dot(cast<bf16>(hidden), W2(h, all), y);
      }
      Y(m, all) = y;
    }
  });
}

/// Causal linear attention in chunks of `chunk` positions: o = (q k^T below the diagonal) v + q S,
/// then S += k^T v. Tensors are [batch * heads, length, dim].
inline auto linear_attention(int chunk) {
  return kernel("linear_attention",
                [=](In<bf16, 3> Q, In<bf16, 3> K, In<bf16, 3> V, Out<bf16, 3> O) {
                  const int keys = K.static_dim(2), values = V.static_dim(2);
                  for (auto b : grid(Q.dim(0), 1)) {
                    Tile state = zeros<f32>(keys, values);
                    for (auto t : steps(Q.dim(1), chunk)) {
                      const Tile q = Q(b, t, all), k = K(b, t, all), v = V(b, t, all);
                      Tile s = dot(q, k.T());
                      s = where(expand(t, 1) >= expand(t, 0), s, 0.0f);
                      O(b, t, all) = dot(cast<bf16>(s), v, dot(q, cast<bf16>(state)));
                      state = dot(k.T(), v, state);
                    }
                  }
                });
}

/// C = A B. Each program multiplies all rows of A by its columns of B, which stay on chip.
inline auto stationary_product(int bm, int bn) {
  return kernel("stationary_product", [=](In<bf16, 2> A, In<bf16, 2> B, Out<bf16, 2> C) {
    for (auto n : grid(cols(C), bn)) {
      const Tile b = B(all, n);
      for (auto m : steps(A.rows(), bm)) C(m, n) = dot(A(m, all), b);
    }
  });
}

/// C[rows i of segment s] = A[rows from[i]] B[s], or A[rows i] B[s]: ragged segments of rows,
/// gathered by an index tile or contiguous.
inline auto grouped_product(int bm, int bn, bool gathered) {
  return kernel(
      gathered ? "gathered_product" : "grouped_product",
      [=](In<bf16, 2> A, In<bf16, 3> B, In<i32, 1> offsets, In<i32, 1> from, Out<bf16, 2> C) {
        C.partial();
        for (auto [s, m, n] :
             grid(segments(offsets, from.dim(0)).by(C.cols()), bm, bn, group_m(8))) {
          Tile sum = zeros<f32>(bm, bn);
          const Tile rows = from(m);
          for (auto k : steps(A.cols(), 64))
            sum = dot(gathered ? A(rows, k) : A(m, k), B(s, k, n), sum);
          C(m, n) = sum;
        }
      });
}

/// Y = relu(X W1) W2 with a narrow hidden layer in registers: a loop over k, then a loop over the
/// columns of Y.
inline auto bottleneck(int bm, int bn) {
  return kernel("bottleneck", [=](In<bf16, 2> X, In<bf16, 2> W1, In<bf16, 2> W2, Out<bf16, 2> Y) {
    const int width = W1.static_dim(1);
    for (auto m : grid(rows(Y), bm)) {
      Tile h = zeros<f32>(bm, width);
      for (auto k : steps(X.cols(), 64)) h = dot(X(m, k), W1(k, all), h);
      const Tile narrow = cast<bf16>(max(h, 0.0f));
      for (auto n : steps(Y.cols(), bn)) Y(m, n) = dot(narrow, W2(all, n));
    }
  });
}

/// Attention whose keys and values are one buffer, [batch * heads, length, dim]. `scale` is the
/// score scale times log2 e; the length must be a multiple of the blocks.
inline auto latent_attention(int bq, int bk) {
  return kernel(
      "latent_attention", [=](In<bf16, 3> Q, In<bf16, 3> KV, Out<bf16, 3> O, Scalar<f32> scale) {
        const int dim = Q.static_dim(2);
        for (auto [b, m] : grid({Q.dim(0), Q.dim(1)}, 1, bq)) {
          assume(m.first() + bq <= Q.dim(1));
          const Tile q = Q(b, m, all);
          Tile o = zeros<f32>(bq, dim), most = full<f32>(-1e30f, bq), total = zeros<f32>(bq);
          for (auto t : steps(KV.dim(1), bk)) {
            assume(t.first() + bk <= KV.dim(1));
            const Tile kv = KV(b, t, all);
            const Tile s = dot(q, kv.T()) * scale;
            const Tile next = max(most, max(s, axis(1)));
            const Tile p = exp2(s - expand(next, 1)), factor = exp2(most - next);
            total = total * factor + sum(p, axis(1));
            o = dot(cast<bf16>(p), kv, o * expand(factor, 1));
            most = next;
          }
          O(b, m, all) = o / expand(total, 1);
        }
      });
}

}  // namespace tegula::bench
