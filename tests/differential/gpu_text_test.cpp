// Machine code of a kernel that was called on a device of the host: ptx() compiles for a GPU, by
// either back end.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "codegen/emit.h"
#include "devices.h"
#include "support/env.h"
#include "tegula/tegula.h"

namespace tegula::gpu_text_test {
namespace {

using Parameter = std::tuple<Device, const char*>;

class GpuText : public testing::TestWithParam<Parameter> {};
INSTANTIATE_TEST_SUITE_P(Devices, GpuText,
                         testing::Combine(testing::ValuesIn(test::devices()),
                                          testing::Values("llvm", "nvrtc")),
                         [](const testing::TestParamInfo<Parameter>& info) {
                           return test::name_of(std::get<0>(info.param)) + "_" +
                                  std::get<1>(info.param);
                         });

TEST_P(GpuText, IsThatOfTheKernel) {
  const auto& [device, back_end] = GetParam();
  Env changed = env();
  changed.backend = back_end;
  const EnvOverride scope(changed);
  const auto k = kernel("doubled", [](In<f32, 1> x, Out<f32, 1> z) {
    for (auto i : grid(z, 128)) z(i) = x(i) * 2.0f;
  });
  const Tensor z = Tensor::empty({100}, DType::f32, device);
  std::string ptx;
  try {
    k(Tensor::iota({100}, DType::f32, device), z);
    ptx = k.ptx();
  } catch (const DeviceError& e) {
    GTEST_SKIP() << "no back end: " << e.what();
  }
  const std::string entry =
      "doubled" + std::string(changed.backend == "nvrtc" ? codegen::kCudaNameSuffix : "");
  EXPECT_NE(ptx.find(".visible .entry " + entry + "("), std::string::npos) << ptx;
  EXPECT_NE(ptx.find("st.global"), std::string::npos) << ptx;
  EXPECT_FALSE(k.dump("emit").empty());
  // The plan that was requested is that of the text.
  const auto planned = k.with_plan("num_warps=2");
  planned(Tensor::iota({100}, DType::f32, device), z);
  if (device.kind != DeviceKind::cpu) {
    EXPECT_NE(planned.ptx().find(".maxntid 64"), std::string::npos) << planned.ptx();
  }
}

}  // namespace
}  // namespace tegula::gpu_text_test
