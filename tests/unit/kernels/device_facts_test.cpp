// The facts about the device at hand that the choice of tiles is given.
#include <gtest/gtest.h>

#include "tegula/device_profile.h"
#include "tegula/kernels/fused_matmul.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::device_facts_test {
using namespace kernels;
namespace {

using runtime::testing::mock;
using runtime::testing::MockDriver;

int multiprocessors_of_problem(Device device) { return device_profile(device).num_sms; }

TEST(DeviceFacts, ProductsAreChosenForTheMultiprocessorsAtHand) {
  const MockDriver driver;
  mock().sms = 114;
  EXPECT_EQ(num_sms(Device::cuda()), 114);
  EXPECT_EQ(multiprocessors_of_problem(Device::cuda()), 114);
  for (const Device device : {Device::cpu(), Device::sim()}) {
    EXPECT_EQ(num_sms(device), 132);
    EXPECT_EQ(multiprocessors_of_problem(device), 132);
  }
}

/// Newer GPUs run what is compiled for sm_80.
TEST(DeviceFacts, WgmmaIsOfHopperAlone) {
  const MockDriver driver;
  mock().devices = 3;
  EXPECT_TRUE(has_wgmma(Device::sim()));
  mock().compute_major = 8;
  EXPECT_FALSE(has_wgmma(Device::cuda(1)));
  mock().compute_major = 10;
  EXPECT_FALSE(has_wgmma(Device::cuda(2)));
}

}  // namespace
}  // namespace tegula::device_facts_test
