#include "tegula/kernels/vector_add.h"

#include "kernels/argument_error.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

void vector_add(const Stream& stream, const Tensor& x, const Tensor& y, const Tensor& z, Loc at) {
  const detail::CallPlace here(at);
  static const auto add = kernel("vector_add", [](In<f32, 1> a, In<f32, 1> b, Out<f32, 1> c) {
    for (auto i : grid(c, 512)) c(i) = a(i) + b(i);
  });
  require_table("vector_add", "x", x, DType::f32, 1);
  require_tensor("vector_add", "y", y, DType::f32, x.shape());
  require_tensor("vector_add", "z", z, DType::f32, x.shape());
  add(stream, x, y, z);
}

}  // namespace tegula::kernels
