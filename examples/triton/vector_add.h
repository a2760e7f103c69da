#pragma once
// Triton's tutorial 01, vector addition.
#include <tegula/tegula.h>

namespace tegula::tutorials {

inline auto vector_add() {
  return kernel("vector_add", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
    for (auto i : grid(z, 1024)) z(i) = x(i) + y(i);
  });
}

}  // namespace tegula::tutorials
