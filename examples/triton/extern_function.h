#pragma once
// Triton's tutorial 07, a library function; here it is part of the language.
#include <tegula/tegula.h>

namespace tegula::tutorials {

inline auto arc_sine() {
  return kernel("arc_sine", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 1024)) y(i) = asin(x(i));
  });
}

}  // namespace tegula::tutorials
