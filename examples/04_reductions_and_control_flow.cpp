// Lesson 4: a user-defined reduction, if_ and while_ for conditions known only at run time, and a
// Scalar argument.
#include <tegula/tegula.h>

#include <cmath>
#include <cstdio>

using namespace tegula;

namespace {

/// Largest magnitude of each row. The lambda of reduce() must be associative and commutative.
const auto peak = kernel("peak", [](In<f32, 2> x, Out<f32, 1> y) {
  for (auto r : grid(y, 1))
    y(r) = reduce(x(r, all), 0, [](Tile a, Tile b) { return where(abs(a) > abs(b), a, b); });
});

/// Newton's iteration, repeated for each row until it is accurate enough; the result for negative
/// numbers is 0.
const auto roots =
    kernel("roots", [](In<f32, 1> x, Out<f32, 1> root, Out<i32, 1> count, Scalar<f32> tolerance) {
      for (auto i : grid(root, 1)) {
        const Tile a = x(i);
        Tile guess = full<f32>(0.0f), n = full<i32>(0);
        if_(a > 0.0f,
            [&] {  // a C++ `if` on a traced value does not compile: its value is not known yet
              guess = max(a, 1.0f);
              while_([&] { return abs(guess * guess - a) > tolerance * a && n < 50; },
                     [&] {
                       guess = 0.5f * (guess + a / guess);
                       n += 1;
                     });
            });
        root(i) = guess;
        count(i) = n;
      }
    });

bool check_peak(Device device) {
  const Tensor x = Tensor::normal({6, 300}, DType::f32, 0, 1, 3, device),
               y = Tensor::empty({6}, DType::f32, device);
  peak(x, y);
  const std::vector<f32> in = x.to_vector<f32>(), out = y.to_vector<f32>();
  for (int r = 0; r < 6; ++r) {
    f32 want = 0;
    for (int c = 0; c < 300; ++c)
      if (std::abs(in[r * 300 + c]) > std::abs(want)) want = in[r * 300 + c];
    if (out[r] != want) return false;
  }
  return true;
}

bool check_roots(Device device) {
  const std::vector<f32> values{2, 1e6f, 0.25f, -3, 0, 10};
  const std::int64_t n = static_cast<std::int64_t>(values.size());
  const Tensor x = Tensor::from(values, device), root = Tensor::empty({n}, DType::f32, device),
               count = Tensor::empty({n}, DType::i32, device);
  roots(x, root, count, 1e-5f);
  const std::vector<f32> got = root.to_vector<f32>();
  const std::vector<std::int32_t> steps_taken = count.to_vector<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double want = values[i] > 0 ? std::sqrt(static_cast<double>(values[i])) : 0;
    std::printf("  sqrt(%g) = %g after %d steps\n", static_cast<double>(values[i]),
                static_cast<double>(got[i]), static_cast<int>(steps_taken[i]));
    if (!(std::abs(got[i] - want) <= 1e-5 * want)) return false;
  }
  return true;
}

}  // namespace

int main() {
  const Device device = Device::best();
  const bool peaks = check_peak(device), square_roots = check_roots(device);
  std::printf("on %s: peaks %s, roots %s\n", device.str().c_str(), peaks ? "right" : "WRONG",
              square_roots ? "right" : "WRONG");
  return peaks && square_roots ? 0 : 1;
}
