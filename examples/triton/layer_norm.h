#pragma once
// Triton's tutorial 05, layer normalisation forward and backward.
#include <tegula/tegula.h>

namespace tegula::tutorials {

inline auto layer_norm() {
  return kernel("layer_norm", [](In<f16, 2> x, In<f16, 1> w, In<f16, 1> b, Out<f16, 2> y,
                                 Out<f32, 1> mean, Out<f32, 1> rstd, Scalar<f32> eps) {
    for (auto r : grid(rows(y), 1)) {
      const Tile v = cast<f32>(x(r, all)), n = cast<f32>(x.cols());
      const Tile m = sum(v) / n, d = v - m, s = rsqrt(sum(d * d) / n + eps);
      y(r, all) = d * s * cast<f32>(w(all)) + cast<f32>(b(all));
      mean(r) = m, rstd(r) = s;
    }
  });
}

/// dx, and the sums for the gradients of weight and bias over every `programs`-th row.
inline auto layer_norm_backward() {
  return kernel("layer_norm_backward",
                [](In<f16, 2> dy, In<f16, 2> x, In<f16, 1> w, In<f32, 1> mean, In<f32, 1> rstd,
                   Out<f16, 2> dx, Out<f32, 2> dw, Out<f32, 2> db) {
                  for (auto p : grid(rows(dw), 1)) {
                    const Tile n = cast<f32>(x.cols()), weight = cast<f32>(w(all));
                    Tile dweight = zeros<f32>(weight.dim(0)), dbias = dweight;
                    for (auto r : steps(p.first(), x.rows(), 1, dw.rows())) {
                      const Tile g = cast<f32>(dy(r, all)), wg = weight * g;
                      const Tile xhat = (cast<f32>(x(r, all)) - mean(r)) * rstd(r);
                      dx(r, all) = (wg - (xhat * sum(xhat * wg) + sum(wg)) / n) * rstd(r);
                      dweight += g * xhat, dbias += g;
                    }
                    dw(p, all) = dweight, db(p, all) = dbias;
                  }
                });
}

/// The sums of all programs.
inline auto layer_norm_weights() {
  return kernel("layer_norm_weights",
                [](In<f32, 2> dw, In<f32, 2> db, Out<f16, 1> dweight, Out<f16, 1> dbias) {
                  for (auto c : grid(dweight, 64)) {
                    Tile w = zeros<f32>(32, 64), b = w;
                    for (auto p : steps(dw.rows(), 32)) w += dw(p, c), b += db(p, c);
                    dweight(c) = sum(w, 0), dbias(c) = sum(b, 0);
                  }
                });
}

}  // namespace tegula::tutorials
