// The Walsh-Hadamard transform on every available device.
#include "tests/differential/hadamard_checks.h"

#include "tests/differential/devices.h"

namespace tegula::test::hadamard_test {
namespace {

class Hadamards : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Hadamards, testing::ValuesIn(devices()), device_name);

TEST_P(Hadamards, PowersOfTwo) { check_hadamards(GetParam()); }
TEST_P(Hadamards, Matrix) { check_hadamard_matrix(GetParam()); }

}  // namespace
}  // namespace tegula::test::hadamard_test
