// Kernels of many conditions on the GPU: a user's by either back end, and random ones by both,
// whose bits are the interpreter's; twins: tests/differential/conditions_test.cpp and
// tests/fuzz/conditions_test.cpp.
#include "ir/text.h"
#include "tests/differential/condition_kernels.h"
#include "tests/fuzz/number_from_env.h"
#include "tests/fuzz/on_device.h"
#include "tests/fuzz/random_conditions.h"
#include "tests/gpu/by_back_end.h"

namespace tegula::test::conditions_test {
namespace {

class ConditionsOnGpu : public ByBackEnd {};
INSTANTIATE_TEST_SUITE_P(BackEnds, ConditionsOnGpu, testing::Values("llvm", "nvrtc"),
                         [](const auto& info) { return std::string(info.param); });

/// A register that is read before it is written may hold the right bits by chance: six runs.
TEST_P(ConditionsOnGpu, AreThoseOfPlainCpp) {
  for (const ConditionCase& c : condition_cases())
    for (std::uint64_t seed = 1; seed <= 6; ++seed)
      EXPECT_EQ(wrong_elements(c, 1 << 20, seed, Device::cuda()), 0) << c.name << " " << seed;
}

TEST_P(ConditionsOnGpu, RandomKernelsAreTheInterpreters) {
  const std::uint64_t first = fuzz::number_from_env("TEGULA_FUZZ_SEED", 1),
                      count = fuzz::number_from_env("TEGULA_FUZZ_PROGRAMS", 150);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const fuzz::RandomConditions p(seed);
    SCOPED_TRACE(testing::Message() << "TEGULA_FUZZ_SEED=" << seed << "\n" << ir::print(p.kernel));
    fuzz::Arguments want = p.args;
    ASSERT_EQ(fuzz::interpret(p.kernel, want), "");
    const auto kernel = fuzz::compiled(p.kernel, {Device::cuda(), {}, {}});
    for (int run = 0; run < 3; ++run)
      ASSERT_EQ(fuzz::other_bits(want, fuzz::launched(*kernel, p.args)), "");
  }
}

}  // namespace
}  // namespace tegula::test::conditions_test
