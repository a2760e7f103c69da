// Softmax on every device that is here.
#include "tests/differential/softmax_checks.h"

#include "tests/differential/devices.h"

namespace tegula::test {
namespace {

class Softmaxes : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Softmaxes, testing::ValuesIn(devices()), device_name);

TEST_P(Softmaxes, AndTheirGradients) { check_softmaxes(GetParam()); }
TEST_P(Softmaxes, RowsWithoutNumbers) { check_softmax_of_no_numbers(GetParam()); }

/// The maximum is subtracted, however large it is.
TEST_P(Softmaxes, OfLargeNumbers) {
  for (const std::int64_t columns : {300, 40000})
    check_softmax(Tensor::normal({3, columns}, DType::f32, 5000, 30, 4, GetParam()), true);
}

}  // namespace
}  // namespace tegula::test
