// Lesson 7: a kernel for other languages. TEGULA_EXPORT gives it a name and a C function; PyTorch,
// or any other library with DLPack, passes its tensors without a copy. Built as a shared library,
// this file provides an operator of PyTorch (docs/c-interface.md):
//   tegula.load("libmine.so", namespace="mine"); y = torch.ops.mine.square(x)
// Here main() is the caller instead, and uses only tegula.h, a C header.
#include <tegula/export.h>
#include <tegula/tegula.h>

#include <cstdio>
#include <numeric>

using namespace tegula;

namespace {

// Dimensions with equal names have equal extents, which determines the shape of the result.
const auto square_kernel = kernel("square", [](In<f32, 2> x, Out<f32, 2> y) {
                             for (auto [r, c] : grid(y, 8, 32)) {
                               const Tile v = x(r, c);
                               y(r, c) = v * v;
                             }
                           }).named("x[M, N]", "y[M, N]");

}  // namespace

TEGULA_EXPORT(square, square_kernel);

int main() {
  const TegulaCallable* square = tegula_find("square");
  const TegulaSignature* signature = tegula_signature(square);
  for (int i = 0; i < signature->count; ++i)
    std::printf("%s[%s]\n", signature->params[i].name, signature->params[i].dims);

  // Tensors in host memory, for the interpreter; GPU tensors stay on the GPU. x is column-major,
  // like a transposed torch tensor: strides are passed along.
  std::int64_t shape[2] = {20, 50}, column_major[2] = {1, 20};
  std::vector<float> in(1000), out(1000);
  std::iota(in.begin(), in.end(), 0.0f);
  const DLTensor x{in.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, column_major, 0};
  const DLTensor y{out.data(), {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
  const TegulaArg args[2] = {{TEGULA_TENSOR, 0, {.tensor = &x}},
                             {TEGULA_TENSOR, 0, {.tensor = &y}}};
  // With torch, the stream is the pointer of torch.cuda.current_stream().
  bool right = tegula_call(square, args, 2, nullptr) == TEGULA_OK;
  for (std::size_t r = 0; r < 20; ++r)
    for (std::size_t c = 0; c < 50; ++c)
      right = right && out[r * 50 + c] == in[c * 20 + r] * in[c * 20 + r];

  // No exception crosses the interface: errors are codes with texts.
  right = right && tegula_call(square, args, 1, nullptr) == TEGULA_ARGUMENT;
  const TegulaError* error = tegula_last_error();
  std::printf("%s\n%s\n%s\n", error->text, error->hint,
              right ? "all checks passed" : "A CHECK FAILED");
  return right ? 0 : 1;
}
