// Machine code of a kernel that was called on a device of the host: ptx() compiles for a GPU.
#include <gtest/gtest.h>

#include "devices.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

class GpuText : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, GpuText, testing::ValuesIn(test::devices()), test::device_name);

TEST_P(GpuText, IsThatOfTheKernel) {
  const auto k = kernel("doubled", [](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 128)) z(i) = x(i) * 2.0f;
  });
  const Tensor z = Tensor::empty({100}, DType::f32, GetParam());
  k(Tensor::iota({100}, DType::f32, GetParam()), z);
  std::string ptx;
  try {
    ptx = k.ptx();
  } catch (const DeviceError& e) {
    GTEST_SKIP() << "no back end: " << e.what();
  }
  EXPECT_NE(ptx.find(".visible .entry doubled("), std::string::npos) << ptx;
  EXPECT_NE(ptx.find("st.global"), std::string::npos) << ptx;
  EXPECT_FALSE(k.dump("emit").empty());
  // The plan that was asked for is that of the text.
  const auto planned = k.with_plan("num_warps=2");
  planned(Tensor::iota({100}, DType::f32, GetParam()), z);
  if (GetParam().kind != DeviceKind::cpu) {
    EXPECT_NE(planned.ptx().find(".maxntid 64"), std::string::npos) << planned.ptx();
  }
}

}  // namespace
}  // namespace tegula
