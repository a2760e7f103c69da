// Lesson 1: a kernel is a C++ lambda. Its grid loop determines which block of the output each
// program computes.
#include <tegula/tegula.h>

#include <cstdio>

using namespace tegula;

int main() {
  const auto add = kernel("add", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
    // 1024 elements per program. The last block extends past the end: its elements there are absent
    // and are not stored.
    for (auto i : grid(z, 1024)) z(i) = x(i) + y(i);
  });

  const std::int64_t n = 5000;
  const Device device =
      Device::best();  // a GPU if there is one; TEGULA_DEVICE=sim or cpu overrides it
  const Tensor x = Tensor::iota({n}, DType::f32, device),
               y = Tensor::full({n}, 0.5, DType::f32, device);
  const Tensor z = Tensor::empty({n}, DType::f32, device);
  add(x, y, z);  // the first call compiles, later calls only launch

  const std::vector<f32> result = z.to_vector<f32>();
  for (std::int64_t i = 0; i < n; ++i) {
    if (result[i] == static_cast<f32>(i) + 0.5f) continue;
    std::printf("element %lld is %g\n", static_cast<long long>(i), static_cast<double>(result[i]));
    return 1;
  }
  std::printf("%lld sums on %s, all right\n", static_cast<long long>(n), device.str().c_str());
}
