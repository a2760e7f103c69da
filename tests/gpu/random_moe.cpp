// 208 random layers of experts on the GPU, in eight parts, processes that may run side by side;
// twin: tests/fuzz/moe_test.cpp on the simulator. To compile takes a hundred times as long as to
// run, so 13 layers share their options and kernels, and the parts a disk cache for those kernels
// that do not follow from the router: rows permuted, combined, placed, and experts of equal
// options.
#include "tests/fuzz/random_moe.h"
#include "tests/gpu/by_back_end.h"

namespace tegula::test::experts::random_moe {
namespace {

constexpr std::uint64_t kParts = 8, kOfSeed = 13;

class RandomMoeOnGpu : public ByBackEnd {};
INSTANTIATE_TEST_SUITE_P(BackEnds, RandomMoeOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

/// TEGULA_FUZZ_PROGRAMS layers of each part.
void run_part(std::uint64_t part) {
  const std::uint64_t count = fuzz::number_from_env("TEGULA_FUZZ_PROGRAMS", 208 / kParts);
  run_random_layers(1 + part * count / kOfSeed, count, Device::cuda(), kOfSeed);
}

TEST_P(RandomMoeOnGpu, Part0) { run_part(0); }
TEST_P(RandomMoeOnGpu, Part1) { run_part(1); }
TEST_P(RandomMoeOnGpu, Part2) { run_part(2); }
TEST_P(RandomMoeOnGpu, Part3) { run_part(3); }
TEST_P(RandomMoeOnGpu, Part4) { run_part(4); }
TEST_P(RandomMoeOnGpu, Part5) { run_part(5); }
TEST_P(RandomMoeOnGpu, Part6) { run_part(6); }
TEST_P(RandomMoeOnGpu, Part7) { run_part(7); }

}  // namespace
}  // namespace tegula::test::experts::random_moe
