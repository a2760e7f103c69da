// Random configurations of attention on the simulator: no finding of any detector, values as the
// reference has them. TEGULA_FUZZ_PROGRAMS and TEGULA_FUZZ_SEED choose how many and which.
#include "tests/fuzz/random_attention.h"

namespace tegula::test::attention_test {
namespace {

TEST(RandomAttention, OnTheSimulator) {
  run_random_configs(number_from_env("TEGULA_FUZZ_SEED", 240),
                     number_from_env("TEGULA_FUZZ_PROGRAMS", 200), Device::sim());
}

}  // namespace
}  // namespace tegula::test::attention_test
