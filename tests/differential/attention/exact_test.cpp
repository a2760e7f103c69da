// Attention on inputs whose exact result is known; tests/gpu/register_operands_test.cpp compares
// ten thousand launches on a GPU.
#include "tests/differential/attention/exact_attention.h"

#include <gtest/gtest.h>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tests/differential/devices.h"

namespace tegula::test::exact_test {
using namespace kernels;
namespace {

class ExactlyAttention : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, ExactlyAttention, testing::ValuesIn(devices()), device_name);

TEST_P(ExactlyAttention, MeansOfIntegers) {
  const Attention attention({.mask = masks::causal()});
  for (const std::int64_t dim : {64, 128, 256}) {
    SCOPED_TRACE(dim);
    const ExactAttention t(2, 200, dim, GetParam());
    const Tensor o = Tensor::full(t.want.shape(), -1, DType::bf16, GetParam());
    attention(Stream(GetParam()), t.Q, t.K, t.V, o);
    EXPECT_EQ(o.to_doubles(), t.want.to_doubles());
  }
}

}  // namespace
}  // namespace tegula::test::exact_test
