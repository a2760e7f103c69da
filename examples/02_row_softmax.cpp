// Lesson 2: reductions over whole rows. Elements outside a tensor are absent, so the kernel needs
// no masks.
#include <tegula/tegula.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

using namespace tegula;

int main() {
  const auto softmax = kernel("softmax", [](In<bf16, 2> x, Out<bf16, 2> y) {
    for (auto r : grid(rows(y), 1)) {  // one row per program
      const Tile v = cast<f32>(x(r, all));
      const Tile e = exp(v - max(v));
      y(r, all) = e / sum(e);
    }
  });

  const Device device = Device::best();
  double worst = 0;
  for (const std::int64_t columns : {1, 7, 128, 1000}) {  // no extent needs to be a power of two
    const std::int64_t count = 5;
    const Tensor x = Tensor::normal({count, columns}, DType::bf16, 0, 2, 1, device);
    const Tensor y = Tensor::empty({count, columns}, DType::bf16, device);
    softmax(x, y);

    const std::vector<double> in = x.to_doubles(), out = y.to_doubles();
    for (std::int64_t r = 0; r < count; ++r) {
      const double* row = in.data() + r * columns;
      const double top = *std::max_element(row, row + columns);
      double sum = 0;
      for (std::int64_t i = 0; i < columns; ++i) sum += std::exp(row[i] - top);
      for (std::int64_t i = 0; i < columns; ++i)
        worst = std::max(worst, std::abs(out[r * columns + i] - std::exp(row[i] - top) / sum));
    }
  }
  std::printf("softmax on %s: largest error %.2g\n", device.str().c_str(), worst);
  return worst < 0.004 ? 0 : 1;  // results up to 1, rounded to bf16: half a unit is 2^-9
}
