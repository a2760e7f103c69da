#include "runtime/nvrtc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/env.h"
#include "tegula/error.h"

namespace tegula::runtime::nvrtc_test {
namespace {

using ::testing::HasSubstr;

#define NEEDS_NVRTC() \
  if (std::string why; !find_nvrtc(&why)) GTEST_SKIP() << why

constexpr const char* kSource =
    "extern \"C\" __global__ void __launch_bounds__(128, 1) axpy(float a, const float* x, float* "
    "y) {\n"
    "  int i = blockIdx.x * 128 + threadIdx.x;\n"
    "  y[i] = a * x[i] + y[i];\n"
    "}\n";

TEST(Nvrtc, CompilesForEveryTarget) {
  NEEDS_NVRTC();
  for (const char* target : {"sm_80", "sm_90", "sm_90a"}) {
    const NvrtcResult r = compile_cuda({kSource, "axpy.cu", target, {}});
    EXPECT_EQ(std::string(r.cubin.data(), 4), "\177ELF") << target;
    EXPECT_GT(r.report.registers, 0) << r.log;
    EXPECT_TRUE(r.report.is_clean()) << r.log;
  }
}

TEST(Nvrtc, DoesNotContract) {
  NEEDS_NVRTC();
  NvrtcJob job{kSource, "axpy.cu", "sm_90a", {}};
  const std::string separate = ptx_of_cuda(job);
  EXPECT_THAT(separate, HasSubstr(".target sm_90a"));
  EXPECT_THAT(separate, HasSubstr("mul.rn.f32"));
  job.options = {"-fmad=true"};
  EXPECT_THAT(ptx_of_cuda(job), HasSubstr("fma.rn.f32"));
}

TEST(Nvrtc, IsDeterministic) {
  NEEDS_NVRTC();
  const NvrtcJob job{kSource, "axpy.cu", "sm_90a", {}};
  EXPECT_EQ(compile_cuda(job).cubin, compile_cuda(job).cubin);
}

TEST(Nvrtc, RefusedSourceShowsTheLog) {
  NEEDS_NVRTC();
  try {
    compile_cuda({"extern \"C\" __global__ void k() { nonsense(); }", "bad.cu", "sm_90a", {}});
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_THAT(
        e.what(),
        HasSubstr("NVRTC refused bad.cu for sm_90a:\nbad.cu(1): error: identifier \"nonsense\""));
  }
  EXPECT_THROW(compile_cuda({kSource, "axpy.cu", "sm_1", {}}), DeviceError);
}

TEST(Nvrtc, MissingLibraryIsExplained) {
  Env fake = env();
  fake.nvrtc = "/nowhere/libnvrtc.so.13";
  const EnvOverride scope(fake);
  try {
    compile_cuda({kSource, "axpy.cu", "sm_90a", {}});
    FAIL();
  } catch (const DeviceError& e) {
    EXPECT_THAT(e.what(),
                HasSubstr("could not be loaded:\n  /nowhere/libnvrtc.so.13: cannot open"));
    EXPECT_THAT(e.what(), HasSubstr("cuda-nvrtc-13-0"));
  }
}

TEST(Nvrtc, WrongLibraryIsExplained) {
  Env fake = env();
  fake.nvrtc = "libm.so.6";
  const EnvOverride scope(fake);
  std::string why;
  EXPECT_FALSE(find_nvrtc(&why));
  EXPECT_THAT(why, HasSubstr("has no nvrtcGetErrorString: CUDA 12 or later is needed"));
}

}  // namespace
}  // namespace tegula::runtime::nvrtc_test
