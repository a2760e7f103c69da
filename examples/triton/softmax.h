#pragma once
// Triton's tutorial 02, fused softmax.
#include <tegula/tegula.h>

namespace tegula::tutorials {

inline auto softmax() {
  return kernel("softmax", [](In<f32, 2> x, Out<f32, 2> y) {
    for (auto r : grid(rows(y), 1)) {
      const Tile v = x(r, all), e = exp(v - max(v));
      y(r, all) = e / sum(e);
    }
  });
}

}  // namespace tegula::tutorials
