// A call through the C interface asks of the driver what the kernel's own call does, on the stream
// that it names.
#include <gtest/gtest.h>

#include "runtime/doctor.h"
#include "tegula/export.h"
#include "tegula/tegula.h"
#include "tests/unit/runtime/mock_driver.h"

using namespace tegula;
namespace mocked = tegula::runtime::testing;

namespace {

const auto add_kernel = kernel("add", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
  for (auto i : grid(z, 64)) z(i) = x(i) + y(i);
});

}  // namespace

TEGULA_EXPORT(add, add_kernel);

namespace {

TEST(ExportedCalls, MakeTheSameDriverCallsAsTheKernel) {
  if (!runtime::diagnose().finding("LLVM").present) GTEST_SKIP() << "no LLVM here";
  const mocked::MockDriver driver;
  const auto address = [](int i) {
    return reinterpret_cast<void*>((std::uintptr_t{1} << 40) + static_cast<unsigned>(i) * 4096);
  };
  std::int64_t shape[1] = {1000};
  DLTensor t[3];
  TegulaArg args[3]{};
  Tensor own[3];
  for (int i = 0; i < 3; ++i) {
    t[i] = {address(i), {kDLCUDA, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
    args[i] = {TEGULA_TENSOR, 0, {.tensor = &t[i]}};
    own[i] = Tensor::borrow(address(i), {1000}, DType::f32, Device::cuda());
  }
  void* const stream = reinterpret_cast<void*>(0x5000);
  const auto direct = [&] { add_kernel(Stream::wrap(stream), own[0], own[1], own[2]); };
  const auto through_c = [&] {
    EXPECT_EQ(tegula_call(tegula_find("add"), args, 3, stream), TEGULA_OK)
        << tegula_last_error()->text;
  };
  direct();
  mocked::take_calls();
  direct();
  const auto wanted = mocked::take_calls();
  through_c();
  EXPECT_EQ(mocked::take_calls(), wanted);
  ASSERT_EQ(mocked::mock().launches.size(), 3u);
  EXPECT_EQ(mocked::mock().launches.back().config.stream, stream);
}

}  // namespace
