#include "runtime/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "mock_driver.h"
#include "support/env.h"

namespace tegula::runtime::doctor_test {
namespace {

using ::testing::HasSubstr;
using testing::mock;
using testing::MockDriver;

// First, because the default device is decided once a process.
TEST(Doctor, PrintsThisMachine) {
  const std::string text = diagnose().str();
  for (const char* part : {"driver", "GPU", "LLVM", "ptxas", "NVRTC", "cache", "environment"})
    EXPECT_THAT(text, HasSubstr(part));
  std::cout << text;
}

TEST(Doctor, NamesAvailableParts) {
  const MockDriver driver;
  const Diagnosis d = diagnose();
  EXPECT_TRUE(d.finding("driver").present);
  EXPECT_THAT(d.finding("driver").detail,
              HasSubstr("without cuDeviceGetUuid: no device identities"));
  EXPECT_TRUE(d.launches);
  EXPECT_EQ(d.finding("GPU").detail,
            "cuda:0 Mock GPU, compute capability 9.0, 132 SMs, 128.0 GiB, 227 KiB shared memory a "
            "block; runs sm_90a code: wgmma, TMA, clusters");
}

TEST(Doctor, OldGpuDoesNotCount) {
  const MockDriver driver;
  mock().compute_major = 7;
  const Diagnosis d = diagnose();
  EXPECT_FALSE(d.launches);
  EXPECT_THAT(d.finding("GPU").detail, HasSubstr("is too old"));
}

TEST(Doctor, NamesMissingPartsAndTheirPackages) {
  Env bare = env();
  bare.ptxas = "/nowhere/ptxas";
  bare.nvrtc = "/nowhere/libnvrtc.so";
  bare.cache = "off";
  const EnvOverride scope(bare);
  const Diagnosis d = diagnose();
  EXPECT_FALSE(d.finding("ptxas").present);
  EXPECT_FALSE(d.finding("NVRTC").present);
  EXPECT_FALSE(d.makes_cubins);
  const std::string text = d.str();
  EXPECT_THAT(
      text,
      HasSubstr("--  ptxas        TEGULA_PTXAS=/nowhere/ptxas in the environment: it is not a "
                "program"));
  EXPECT_THAT(text, HasSubstr("                 needed for cubins that are kept"));
  EXPECT_THAT(text, HasSubstr("to mend: install cuda-nvrtc-13-0"));
  EXPECT_THAT(text, HasSubstr("to cubin: no;"));
  EXPECT_THAT(d.finding("cache").detail, HasSubstr("TEGULA_CACHE=off"));
}

TEST(Doctor, FindsMisspeltVariables) {
  env();  // read before the name is misspelt, which it would refuse
  ::setenv("TEGULA_DEVISE", "sim", 1);
  const Diagnosis d = diagnose();
  ::unsetenv("TEGULA_DEVISE");
  EXPECT_FALSE(d.finding("environment").present);
  EXPECT_THAT(d.finding("environment").detail, HasSubstr("TEGULA_DEVISE"));
}

}  // namespace
}  // namespace tegula::runtime::doctor_test
