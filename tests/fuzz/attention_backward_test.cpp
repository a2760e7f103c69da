// Random configurations of attention's gradients on the simulator: no finding of any detector,
// values as the reference has them. TEGULA_FUZZ_PROGRAMS and TEGULA_FUZZ_SEED choose how many and
// which.
#include "tests/differential/attention/backward_reference.h"
#include "tests/fuzz/random_attention.h"

namespace tegula::test::attention_backward_test {
namespace {

constexpr std::int64_t kLongest = 150;

/// A configuration of the forward call, without packed sequences.
Config backward_config(std::uint64_t seed, Device device) {
  Config c = random_config(seed, device);
  while (!c.q_starts.empty()) c = random_config(seed += 1'000'003, device);
  Extents& e = c.extents;
  if (!c.spec.align_bottom_right)
    e.seqlen_q = std::min(e.seqlen_q, kLongest), e.seqlen_kv = std::min(e.seqlen_kv, kLongest);
  c.schedule = {}, c.numerics = {}, c.order = Order::bhsd, c.maxima = false;
  return c;
}

void run_backward(const Config& c, std::uint64_t seed, Device device) {
  Env planned = env();
  planned.plan = c.plan;
  const EnvOverride scope(planned);
  Dice dice(seed ^ 0xbac);
  BackwardCase b(c.extents, device, c.dtype, seed);
  b.host = c.host;
  if (!c.sinks.empty()) b.with_sinks(seed);
  if (dice.one_in(5)) b.dQ = {};
  if (dice.one_in(5)) b.dK = {};
  if (b.dQ.defined() && dice.one_in(5)) b.dV = {};
  check_backward(c.spec, b, {.deterministic = !c.spec.blocks && dice.one_in(3)});
}

TEST(RandomAttentionBackward, OnTheSimulator) {
  const std::uint64_t first = number_from_env("TEGULA_FUZZ_SEED", 470),
                      count = number_from_env("TEGULA_FUZZ_PROGRAMS", 40);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const Config c = backward_config(seed, Device::sim());
    SCOPED_TRACE("TEGULA_FUZZ_SEED=" + std::to_string(seed) +
                 " TEGULA_FUZZ_PROGRAMS=1: " + c.str());
    try {
      run_backward(c, seed, Device::sim());
    } catch (const Error& e) {
      ADD_FAILURE() << e.what();
    }
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tegula::test::attention_backward_test
