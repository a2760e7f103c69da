// A kernel for programs in C.
#include <tegula/export.h>
#include <tegula/tegula.h>

using namespace tegula;

namespace {

const auto doubled_kernel = kernel("doubled", [](In<f32, 1> x, Out<f32, 1> y) {
  for (auto i : grid(y, 64)) y(i) = x(i) * 2.0f;
});

}  // namespace

TEGULA_EXPORT(doubled, doubled_kernel);
