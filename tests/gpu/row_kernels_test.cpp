// The library's kernels of rows on the GPU, by either back end; twins:
// tests/differential/{norm,softmax,gated_activation,rope}_test.cpp.
#include "tests/differential/gated_activation_checks.h"
#include "tests/differential/norm_checks.h"
#include "tests/differential/rope_checks.h"
#include "tests/differential/softmax_checks.h"
#include "tests/gpu/by_back_end.h"

namespace tegula::test {
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

}  // namespace
}  // namespace tegula::test
