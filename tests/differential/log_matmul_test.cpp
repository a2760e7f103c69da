// Log-space matmul on every device that is here.
#include "tests/differential/log_matmul_checks.h"

#include "tests/differential/devices.h"

namespace tegula::test::log_matmul_test {
namespace {

class LogMatmuls : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, LogMatmuls, testing::ValuesIn(devices()), device_name);

TEST_P(LogMatmuls, Shapes) { check_log_matmuls(GetParam()); }
TEST_P(LogMatmuls, NumbersFarApart) { check_log_matmul_extremes(GetParam()); }

}  // namespace
}  // namespace tegula::test::log_matmul_test
