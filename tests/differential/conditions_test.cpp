// Kernels with many conditions that others need, on every device; twin with random ones:
// tests/fuzz/conditions_test.cpp, tests/gpu/conditions_test.cpp.
#include "tests/differential/condition_kernels.h"
#include "tests/differential/devices.h"

namespace tegula::test::conditions_test {
namespace {

class Conditions : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Conditions, testing::ValuesIn(devices()), device_name);

TEST_P(Conditions, AreThoseOfPlainCpp) {
  for (const ConditionCase& c : condition_cases())
    EXPECT_EQ(wrong_elements(c, 3000, 1, GetParam()), 0) << c.name;
}

}  // namespace
}  // namespace tegula::test::conditions_test
