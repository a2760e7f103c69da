// The library's kernels of rows on the GPU, by either back end; twins:
// tests/differential/{norm,softmax,gated_activation,rope,cross_entropy,quantise,hadamard,embedding,
// adamw}_test.cpp.
#include "tests/differential/adamw_checks.h"
#include "tests/differential/embedding_checks.h"
#include "tests/differential/gated_activation_checks.h"
#include "tests/differential/hadamard_checks.h"
#include "tests/differential/linear_cross_entropy_checks.h"
#include "tests/differential/norm_checks.h"
#include "tests/differential/quantise_checks.h"
#include "tests/differential/rope_checks.h"
#include "tests/differential/softmax_checks.h"
#include "tests/gpu/by_back_end.h"

namespace tegula::test::row_kernels_test {
namespace {

class RowKernelsOnGpu : public ByBackEnd {};
INSTANTIATE_TEST_SUITE_P(BackEnds, RowKernelsOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(RowKernelsOnGpu, Norms) {
  for (const bool is_centred : {false, true}) check_norms(Device::cuda(), is_centred);
  check_norm_of_no_numbers(Device::cuda(), 3000);
}
TEST_P(RowKernelsOnGpu, Softmaxes) {
  check_softmaxes(Device::cuda());
  check_softmax_of_no_numbers(Device::cuda());
}
TEST_P(RowKernelsOnGpu, GatedActivations) { check_gated_activations(Device::cuda()); }
TEST_P(RowKernelsOnGpu, Ropes) { check_ropes(Device::cuda()); }
TEST_P(RowKernelsOnGpu, CrossEntropies) {
  check_cross_entropies(Device::cuda());
  check_linear_cross_entropies(Device::cuda());
}
TEST_P(RowKernelsOnGpu, Quantisations) {
  check_quantisations(Device::cuda());
  check_quantised_extremes(Device::cuda());
}
TEST_P(RowKernelsOnGpu, Hadamards) {
  check_hadamards(Device::cuda());
  check_hadamard_matrix(Device::cuda());
}
TEST_P(RowKernelsOnGpu, Embeddings) { check_embeddings(Device::cuda()); }
TEST_P(RowKernelsOnGpu, AdamW) { check_adamw(Device::cuda()); }

}  // namespace
}  // namespace tegula::test::row_kernels_test
