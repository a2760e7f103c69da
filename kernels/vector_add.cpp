#include "tegula/kernels/vector_add.h"

#include "tegula/tegula.h"

namespace tegula {

void vector_add(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& z) {
  static const auto add = kernel("vector_add", [](In<f32, 1> a, In<f32, 1> b, Out<f32, 1> c) {
    for (auto i : grid(c, 512)) c(i) = a(i) + b(i);
  });
  add(stream, x, y, z);
}

}  // namespace tegula
