// library_calls DEVICE: calls matmul, softmax, rms_norm and attention of an installed package on a
// device and compares them with loops in double precision.
#include <tegula/kernels/attention.h>
#include <tegula/kernels/matmul.h>
#include <tegula/kernels/norm.h>
#include <tegula/kernels/softmax.h>
#include <tegula/tegula.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

using namespace tegula;
using namespace tegula::kernels;

namespace {

using Values = std::vector<double>;

int failures = 0;

/// Multiples of 1/8 in [-1, 1], which every float type holds.
Values drawn(std::size_t count, std::uint32_t seed) {
  Values v;
  for (std::size_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    v.push_back((static_cast<double>(seed >> 28) - 7.0) / 8.0);
  }
  return v;
}

template <class T>
Tensor tensor(const Values& values, const Dims& shape, Device device) {
  std::vector<T> converted;
  for (const double v : values) converted.push_back(static_cast<T>(static_cast<float>(v)));
  return Tensor::from(converted, shape, device);
}

template <class T>
void check(const char* what, const Tensor& got, const Values& want, double tolerance) {
  const std::vector<T> values = got.to_vector<T>();
  double worst = values.size() == want.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(values.size(), want.size()); ++i) {
    const double error = std::abs(static_cast<double>(static_cast<float>(values[i])) - want[i]);
    worst = std::isnan(error) ? INFINITY : std::max(worst, error);
  }
  std::printf("%s %s: largest error %.2g\n", worst <= tolerance ? "ok    " : "FAILED", what, worst);
  failures += worst > tolerance;
}

void softmax_row(double* row, std::size_t count) {
  const double largest = *std::max_element(row, row + count);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += row[i] = std::exp(row[i] - largest);
  for (std::size_t i = 0; i < count; ++i) row[i] /= sum;
}

/// [m, n] = [m, k] [k, n].
Values product(const Values& a, const Values& b, std::size_t m, std::size_t k, std::size_t n) {
  Values c(m * n);
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

void check_matmul(Device device) {
  const Values a = drawn(70 * 48, 1), b = drawn(48 * 56, 2);
  const Tensor c = Tensor::empty({70, 56}, DType::f32, device);
  matmul(tensor<bf16>(a, {70, 48}, device), tensor<bf16>(b, {48, 56}, device), c);
  check<f32>("matmul", c, product(a, b, 70, 48, 56), 1e-4);
}

void check_softmax(Device device) {
  Values x = drawn(5 * 200, 3);
  const Tensor y = Tensor::empty({5, 200}, DType::f32, device);
  softmax(Stream(device), tensor<f32>(x, {5, 200}, device), y);
  for (std::size_t row = 0; row < 5; ++row) softmax_row(&x[row * 200], 200);
  check<f32>("softmax", y, x, 1e-5);
}

void check_rms_norm(Device device) {
  Values x = drawn(5 * 96, 4);
  const Values weight = drawn(96, 5);
  const Tensor y = Tensor::empty({5, 96}, DType::f32, device);
  rms_norm(Stream(device), tensor<f32>(x, {5, 96}, device), tensor<f32>(weight, {96}, device), y);
  for (std::size_t row = 0; row < 5; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < 96; ++i) squares += x[row * 96 + i] * x[row * 96 + i];
    for (std::size_t i = 0; i < 96; ++i)
      x[row * 96 + i] *= weight[i] / std::sqrt(squares / 96 + 1e-6);
  }
  check<f32>("rms_norm", y, x, 1e-5);
}

/// One head, causal.
void check_attention(Device device) {
  constexpr std::size_t kLength = 40, kDim = 16;
  const Values q = drawn(kLength * kDim, 6), k = drawn(kLength * kDim, 7),
               v = drawn(kLength * kDim, 8);
  const Dims shape{1, 1, kLength, kDim};
  const Tensor o = Tensor::empty(shape, DType::bf16, device);
  const auto causal = attention({.mask = [](auto, auto, auto i, auto j) { return i >= j; }});
  causal(Stream(device), tensor<bf16>(q, shape, device), tensor<bf16>(k, shape, device),
         tensor<bf16>(v, shape, device), o);
  Values weights(kLength * kLength);
  for (std::size_t i = 0; i < kLength; ++i) {
    for (std::size_t j = 0; j <= i; ++j)
      for (std::size_t d = 0; d < kDim; ++d)
        weights[i * kLength + j] += q[i * kDim + d] * k[j * kDim + d] / std::sqrt(double{kDim});
    softmax_row(&weights[i * kLength], i + 1);
  }
  check<bf16>("attention", o, product(weights, v, kLength, kLength, kDim), 1e-2);
}

}  // namespace

int main(int count, char** words) {
  const Device device = count > 1 ? Device::parse(words[1]) : Device::best();
  std::printf("on %s\n", device.str().c_str());
  check_matmul(device);
  check_softmax(device);
  check_rms_norm(device);
  check_attention(device);
  return failures;
}
