// Random layers of experts on the simulator: no finding of any detector, values and gradients as
// the reference has them. TEGULA_FUZZ_PROGRAMS and TEGULA_FUZZ_SEED choose how many and which.
#include "tests/fuzz/random_moe.h"

namespace tegula::test::experts::moe_test {
namespace {

TEST(RandomMoe, OnTheSimulator) {
  run_random_layers(fuzz::number_from_env("TEGULA_FUZZ_SEED", 240),
                    fuzz::number_from_env("TEGULA_FUZZ_PROGRAMS", 60), Device::sim());
}

TEST(RandomMoe, GradientsOnTheSimulator) {
  run_random_layers(fuzz::number_from_env("TEGULA_FUZZ_SEED", 740),
                    fuzz::number_from_env("TEGULA_FUZZ_PROGRAMS", 60) / 3, Device::sim(),
                    kLayersOfSeed, LayerPass::both);
}

}  // namespace
}  // namespace tegula::test::experts::moe_test
