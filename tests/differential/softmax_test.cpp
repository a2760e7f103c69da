// Softmax on every available device.
#include "tests/differential/softmax_checks.h"

#include "tests/differential/devices.h"

namespace tegula::test::softmax_test {
namespace {

class Softmaxes : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, Softmaxes, testing::ValuesIn(devices()), device_name);

TEST_P(Softmaxes, AndTheirGradients) { check_softmaxes(GetParam()); }
TEST_P(Softmaxes, RowsWithoutNumbers) { check_softmax_of_no_numbers(GetParam()); }

/// The maximum is subtracted, however large it is.
TEST_P(Softmaxes, LargeNumbers) {
  for (const std::int64_t columns : {300, 40000})
    check_softmax(Tensor::normal({3, columns}, DType::f32, 5000, 30, 4, GetParam()), true);
}

/// Masked by the type's smallest number, as PyTorch's users do it, a row all of which is masked is
/// uniform: times log2(e) that number would be an infinity.
TEST_P(Softmaxes, TheLargestNumbers) {
  for (const std::int64_t columns : {300, 3000, 40000})
    for (const DType dtype : {DType::bf16, DType::f32})
      for (const double least : {dtype == DType::bf16 ? -0x1.fep127 : -0x1.fffffep127, 0x1.fep127})
        for (const bool are_all : {false, true}) {
          Doubles values(static_cast<std::size_t>(2 * columns), least);
          if (!are_all) values[5] = 0, values[columns + 9] = -1;
          check_softmax(
              Tensor::from(values, {2, columns}, Device::cpu()).cast(dtype).to(GetParam()), true);
        }
}

}  // namespace
}  // namespace tegula::test::softmax_test
