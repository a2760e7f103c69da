// Launches with arguments that they cannot use, and machines that lack parts. Mistakes in the
// language are in language_test.cpp, those of the driver in tests/unit/runtime/launch_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/env.h"
#include "tegula/error.h"
#include "tegula/tegula.h"

namespace tegula::bad_input_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

auto copying() {
  return kernel("copy", [](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) z(i) = x(i);
  });
}

class BadInput : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, BadInput,
                         testing::Values(Device::cpu(), Device::sim(), Device::cuda()),
                         [](const auto& i) { return std::string(i.param.str().substr(0, 3)); });

TEST_P(BadInput, EmptyTensorsCauseNeitherALaunchNorAnError) {
  const Device device = GetParam();
  if (device.kind == DeviceKind::cuda && Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
  copying()(Tensor::zeros({0}, DType::f32, device), Tensor::zeros({0}, DType::f32, device));
  const auto product = kernel("product", [](In<f32, 2> a, In<f32, 2> b, Out<f32, 2> c) {
    for (auto [m, n] : grid(c, 16, 16)) {
      auto acc = zeros<f32>(16, 16);
      for (auto k : steps(a.cols(), 16)) acc = dot(a(m, k), b(k, n), acc);
      c(m, n) = acc;
    }
  });
  const auto of = [&](std::int64_t rows, std::int64_t columns) {
    return Tensor::zeros({rows, columns}, DType::f32, device);
  };
  product(of(0, 8), of(8, 4), of(0, 4));
  // Nothing to sum over is a sum of nothing.
  const Tensor c = Tensor::full({4, 4}, 7, DType::f32, device);
  product(of(4, 0), of(0, 4), c);
  EXPECT_EQ(c.to_doubles(), std::vector<double>(16, 0));
}

TEST(BadInputs, TooMuchSharedMemoryNamesTheLimit) {
  const auto product = kernel("product", [](In<bf16, 2> a, In<bf16, 2> b, Out<f32, 2> c) {
    for (auto [m, n] : grid(c, 256, 256)) {
      auto acc = zeros<f32>(256, 256);
      for (auto k : steps(a.cols(), 512)) acc = dot(a(m, k), b(k, n), acc);
      c(m, n) = acc;
    }
  });
  const Tensor a = Tensor::zeros({1024, 1024}, DType::bf16, Device::sim());
  EXPECT_THAT(
      error_of([&] { product(a, a, Tensor::zeros({1024, 1024}, DType::f32, Device::sim())); }),
      AllOf(HasSubstr("kernel product needs"), HasSubstr("bytes of shared memory"),
            HasSubstr("allows 232448 bytes per CTA"), HasSubstr("use smaller tiles")));
}

TEST(BadInputs, WithoutAGpuTheErrorNamesTheDriverAndTheWorkingDevices) {
  if (Device::cuda_count() > 0) GTEST_SKIP() << "there is a GPU";
  const std::string said = error_of([] { Tensor::zeros({4}, DType::f32, Device::cuda()); });
  EXPECT_NE(said, "no error");
  EXPECT_THAT(said, testing::AnyOf(HasSubstr("the devices 'cpu' and 'sim' still work"),
                                   HasSubstr("no GPU"), HasSubstr("no CUDA")));
}

TEST(BadInputs, WithoutToolsInterpreterAndSimulatorWork) {
  Env bare = env();
  bare.ptxas = "/nowhere/ptxas";
  bare.nvrtc = "/nowhere/libnvrtc.so";
  bare.llvm = "/nowhere/libtegula_llvm.so";
  const EnvOverride scope(bare);
  for (const Device device : {Device::cpu(), Device::sim()}) {
    const Tensor x = Tensor::iota({40}, DType::f32, device),
                 z = Tensor::zeros({40}, DType::f32, device);
    copying()(x, z);
    EXPECT_EQ(z.to_doubles(), x.to_doubles());
  }
}

}  // namespace
}  // namespace tegula::bad_input_test
