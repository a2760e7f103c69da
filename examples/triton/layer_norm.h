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

/// The operands of one row of the backward pass, 0 after the last row. They are loaded one
/// iteration ahead.
struct RowOperands {
  Tile dy, x, mean, rstd;
  RowOperands(const In<f16, 2>& dys, const In<f16, 2>& xs, const In<f32, 1>& means,
              const In<f32, 1>& rstds, const Index& r)
      : dy(fill_absent(dys(r, all), 0)),
        x(fill_absent(xs(r, all), 0)),
        mean(fill_absent(means(r), 0)),
        rstd(fill_absent(rstds(r), 0)) {}
};

/// Computes dx. Program p also sums the gradients of weight and bias over its rows, p, p +
/// programs,
/// ..
inline auto layer_norm_backward() {
  return kernel("layer_norm_backward",
                [](In<f16, 2> dy, In<f16, 2> x, In<f16, 1> w, In<f32, 1> mean, In<f32, 1> rstd,
                   Out<f16, 2> dx, Out<f32, 2> dw, Out<f32, 2> db) {
                  for (auto p : grid(rows(dw), 1)) {
                    const Tile n = cast<f32>(x.cols()), weight = cast<f32>(w(all));
                    Tile dweight = zeros<f32>(weight.dim(0)), dbias = dweight;
                    RowOperands next(dy, x, mean, rstd, p);
                    for (auto r : steps(p.first(), x.rows(), 1, dw.rows())) {
                      const RowOperands row = next;
                      next = RowOperands(dy, x, mean, rstd, Index(r.first() + dw.rows(), 1));
                      const Tile g = cast<f32>(row.dy), wg = weight * g;
                      const Tile xhat = (cast<f32>(row.x) - row.mean) * row.rstd;
                      const Tile dot = sum(xhat * wg) / n, mean = sum(wg) / n;
                      dx(r, all) = (wg - (xhat * dot + mean)) * row.rstd;
                      dweight += g * xhat, dbias += g;
                    }
                    dw(p, all) = dweight, db(p, all) = dbias;
                  }
                });
}

/// Adds the partial gradients of weight and bias of all programs.
inline auto layer_norm_weights() {
  return kernel("layer_norm_weights",
                [](In<f32, 2> dw, In<f32, 2> db, Out<f16, 1> dweight, Out<f16, 1> dbias) {
                  for (auto c : grid(dweight, 16)) {
                    Tile w = zeros<f32>(256, 16), b = w;
                    for (auto p : steps(dw.rows(), 256)) w += dw(p, c), b += db(p, c);
                    dweight(c) = sum(w, 0), dbias(c) = sum(b, 0);
                  }
                });
}

}  // namespace tegula::tutorials
