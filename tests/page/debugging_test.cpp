// Compiles and runs the code of docs/language/debugging.md unchanged.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "runtime/doctor.h"
#include "support/text.h"
#include "tests/page/page.h"

namespace tegula::page::debugging_test {
namespace {

TEST(Debugging, BothHostDevices) {
#include "debugging_1.inc"
  const Tensor one = Tensor::full({1500}, 1, DType::f32, Device::sim()),
               z = Tensor::empty({1500}, DType::f32, Device::sim());
  add(one, one, z);
  for (const double v : z.to_doubles()) ASSERT_EQ(v, 2);
}

TEST(Debugging, ADiagnosticIsTaken) {
  testing::internal::CaptureStderr();
#include "debugging_2.inc"
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("error T0101"), std::string::npos) << said;
  EXPECT_NE(said.find("debugging_2.inc:2"), std::string::npos) << said;
}

TEST(Debugging, BothHostDevicesCheckAssumptions) {
  const auto assumed = kernel("assumed", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 64)) {
      assume(x.dim(0) % 64 == 0);
      y(i) = x(i);
    }
  });
  for (const Device device : {Device::cpu(), Device::sim()}) {
    const Tensor x = Tensor::zeros({65}, DType::f32, device),
                 y = Tensor::empty({65}, DType::f32, device);
    EXPECT_THROW(assumed(x, y), Error) << device.str();
  }
}

TEST(Debugging, CodeForAGpuNeedsNone) {
  const std::filesystem::path before = std::filesystem::current_path(),
                              folder = std::filesystem::path(testing::TempDir()) /
                                       "tegula_page_debugging";
  std::filesystem::create_directories(folder);
  std::filesystem::current_path(folder);
  {
#include "debugging_3.inc"
    if (runtime::diagnose().finding("LLVM").present) {
#include "debugging_4.inc"
      EXPECT_NE(ptx.find(".entry scale"), std::string::npos);
    }
#include "debugging_5.inc"
  }
  std::filesystem::current_path(before);
  const std::string text = read_file(folder / "scale.tir");
  std::filesystem::remove_all(folder);
  EXPECT_NE(text.find("kernel @scale tile target(sm_90a)"), std::string::npos)
      << text.substr(0, 200);
}

TEST(Debugging, AKernelSpeaks) {
#include "debugging_6.inc"
  std::vector<std::string> lines;
  set_print_sink([&](std::string_view line) { lines.emplace_back(line); });
  for (const Device device : {Device::cpu(), Device::sim()}) {
    lines.clear();
    checked(Tensor::iota({2, 5}, DType::f32, device), Tensor::empty({2, 5}, DType::f32, device));
    EXPECT_EQ(lines,
              (std::vector<std::string>{"checked(0): at 0, 0: [[0, 1, 2, 3], [5, 6, 7, 8]]\n",
                                        "checked(1): at 0, 4: [[4, -, -, -], [9, -, -, -]]\n"}))
        << device.str();
    EXPECT_THROW(checked(Tensor::full({2, 5}, -1, DType::f32, device),
                         Tensor::empty({2, 5}, DType::f32, device)),
                 ProgramError)
        << device.str();
  }
  set_print_sink({});
}

}  // namespace
}  // namespace tegula::page::debugging_test
