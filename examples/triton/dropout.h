#pragma once
// Triton's tutorial 04, dropout that does not store its mask.
#include <tegula/tegula.h>

namespace tegula::tutorials {

inline auto dropout_by_seed() {
  return kernel("dropout", [](In<f32, 1> x, Out<f32, 1> y, Scalar<u64> seed) {
    for (auto i : grid(y, 1024)) y(i) = dropout(x(i), 0.5, seed, i.indices());
  });
}

}  // namespace tegula::tutorials
