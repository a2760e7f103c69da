#pragma once
// Fixtures of tests on the GPU: skipped without one, run by either back end.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "runtime/context.h"
#include "runtime/doctor.h"
#include "support/env.h"
#include "tegula/device.h"

namespace tegula::test {

/// Parameter: the back end, which TEGULA_BACKEND says while a test runs.
class ByBackEnd : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
    if (std::string(GetParam()) == "nvrtc" && !runtime::diagnose().finding("NVRTC").present)
      GTEST_SKIP() << "no NVRTC here";
    Env wanted = env();
    wanted.backend = GetParam();
    scope_.emplace(wanted);
  }

 private:
  std::optional<EnvOverride> scope_;
};

/// For hand-written texts: the parameter says whether NVRTC builds them.
class OnHopper : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (Device::cuda_count() == 0) GTEST_SKIP() << "no GPU";
    if (runtime::device_properties(0).compute() != 90) GTEST_SKIP() << "not an sm_90 GPU";
  }
};

}  // namespace tegula::test
