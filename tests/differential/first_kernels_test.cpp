// The first kernels of the language, on every device that is here, against host arithmetic.
#include <gtest/gtest.h>

#include <cmath>

#include "tegula/tegula.h"

namespace tegula {
namespace {

std::vector<Device> devices() {
  std::vector<Device> list{Device::cpu(), Device::sim()};
  if (Device::cuda_count() > 0) list.push_back(Device::cuda());
  return list;
}

class EveryDevice : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, EveryDevice, testing::ValuesIn(devices()),
                         [](const auto& info) { return std::string(info.param.kind == DeviceKind::cpu ? "cpu" : info.param.kind == DeviceKind::sim ? "sim" : "cuda"); });

TEST_P(EveryDevice, VectorAdd) {
  const auto add = kernel("add", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
    for (auto i : grid(z, 1024)) z(i) = x(i) + y(i);
  });
  for (std::int64_t n : {1, 1000, 4096, 5001}) {
    const Tensor x = Tensor::normal({n}, DType::f32, 0, 1, 1, GetParam()), y = Tensor::normal({n}, DType::f32, 0, 1, 2, GetParam());
    const Tensor z = Tensor::empty({n}, DType::f32, GetParam());
    add(x, y, z);
    const auto a = x.to_vector<f32>(), b = y.to_vector<f32>(), c = z.to_vector<f32>();
    for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i << " of " << n;
  }
}

TEST_P(EveryDevice, RowSoftmax) {
  const auto softmax = kernel("softmax", [](In<bf16, 2> x, Out<bf16, 2> y) {
    for (auto r : grid(rows(y), 1)) {
      auto v = cast<f32>(x(r, all));
      auto e = exp(v - max(v));
      y(r, all) = e / sum(e);
    }
  });
  for (std::int64_t n : {1, 7, 128, 1000, 3000}) {
    const Tensor x = Tensor::normal({5, n}, DType::bf16, 0, 2, 3, GetParam()), y = Tensor::empty({5, n}, DType::bf16, GetParam());
    softmax(x, y);
    const auto a = x.to_doubles(), c = y.to_doubles();
    for (int r = 0; r < 5; ++r) {
      double m = -INFINITY, s = 0;
      for (int i = 0; i < n; ++i) m = std::max(m, a[r * n + i]);
      for (int i = 0; i < n; ++i) s += std::exp(a[r * n + i] - m);
      for (int i = 0; i < n; ++i) ASSERT_NEAR(c[r * n + i], std::exp(a[r * n + i] - m) / s, 0.005) << n << " row " << r << " col " << i;
    }
  }
}

}  // namespace
}  // namespace tegula
