// Triton's tutorials in the language on the GPU, by either back end; twin:
// tests/differential/triton_tutorials_test.cpp.
#include "tests/differential/triton_tutorial_checks.h"
#include "tests/gpu/by_back_end.h"

namespace tegula::test::triton_tutorials_test {
namespace {

class TritonTutorialsOnGpu : public ByBackEnd {};
INSTANTIATE_TEST_SUITE_P(BackEnds, TritonTutorialsOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(TritonTutorialsOnGpu, Elementwise) { check_elementwise_tutorials(Device::cuda()); }
TEST_P(TritonTutorialsOnGpu, Softmax) { check_softmax_tutorial(Device::cuda()); }
TEST_P(TritonTutorialsOnGpu, Matmuls) { check_matmul_tutorials(Device::cuda()); }
TEST_P(TritonTutorialsOnGpu, GroupedGemm) { check_grouped_gemm_tutorial(Device::cuda()); }
TEST_P(TritonTutorialsOnGpu, BlockScaledMatmul) { check_block_scaled_tutorial(Device::cuda()); }
TEST_P(TritonTutorialsOnGpu, LayerNorm) { check_layer_norm_tutorial(Device::cuda()); }
TEST_P(TritonTutorialsOnGpu, Attention) { check_attention_tutorial(Device::cuda()); }

}  // namespace
}  // namespace tegula::test::triton_tutorials_test
