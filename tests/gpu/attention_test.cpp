// Attention on the GPU, by either back end; twins: tests/fuzz/attention_test.cpp and
// tests/differential/attention on the simulator.
#include "tests/fuzz/random_attention.h"
#include "tests/gpu/by_back_end.h"

namespace tegula::test {
namespace {

class AttentionOnGpu : public ByBackEnd {};
INSTANTIATE_TEST_SUITE_P(BackEnds, AttentionOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(AttentionOnGpu, RandomConfigurations) {
  run_random_configs(number_from_env("TEGULA_FUZZ_SEED", 240),
                     number_from_env("TEGULA_FUZZ_PROGRAMS", 40), Device::cuda());
}

TEST_P(AttentionOnGpu, LongSequences) {
  const Attention causal({.mask = masks::causal()});
  HostAttention host;
  host.mask = [](int, int, int q, int kv) { return q >= kv; };
  for (const auto& [q, kv] : {std::pair{1023, 1024}, {1024, 1023}, {2048, 2048}, {4097, 513}})
    for (const DType dtype : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(testing::Message() << q << " " << kv << " " << name(dtype));
      const Tensors t({.heads = 2, .q_length = q, .kv_length = kv, .dim = 128, .value_dim = 128},
                      dtype, Order::bshd, Device::cuda());
      causal(Stream(Device::cuda()), t.Q, t.K, t.V, t.O, t.Lse);
      expect_attention(host, t);
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace tegula::test
