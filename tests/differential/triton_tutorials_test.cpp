// Triton's tutorials in the language on every available device.
#include "tests/differential/devices.h"
#include "tests/differential/triton_tutorial_checks.h"

namespace tegula::test::triton_tutorials_test {
namespace {

class TritonTutorials : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, TritonTutorials, testing::ValuesIn(devices()), device_name);

TEST_P(TritonTutorials, Elementwise) { check_elementwise_tutorials(GetParam()); }
TEST_P(TritonTutorials, Softmax) { check_softmax_tutorial(GetParam()); }
TEST_P(TritonTutorials, Matmuls) { check_matmul_tutorials(GetParam()); }
TEST_P(TritonTutorials, GroupedGemm) { check_grouped_gemm_tutorial(GetParam()); }
TEST_P(TritonTutorials, BlockScaledMatmul) { check_block_scaled_tutorial(GetParam()); }
TEST_P(TritonTutorials, LayerNorm) { check_layer_norm_tutorial(GetParam()); }
TEST_P(TritonTutorials, Attention) { check_attention_tutorial(GetParam()); }

}  // namespace
}  // namespace tegula::test::triton_tutorials_test
