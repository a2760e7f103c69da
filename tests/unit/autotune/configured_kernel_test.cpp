// Kernels made for configurations: each once, with the numbers and the preferred plan of its own.
#include "tegula/configured_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tegula/tegula.h"

namespace tegula::configured_kernel_test {
namespace {

struct Steps {
  int block = 8;
  bool doubled = false;
  friend auto operator<=>(const Steps&, const Steps&) = default;
};

struct Fill {
  Steps config{};
  PlanPatch plan() const { return {.num_warps = config.doubled ? std::optional(2) : std::nullopt}; }
  void operator()(Out<i32, 1> z) const {
    const Steps& c = config;
    for (auto i : grid(z, c.block)) z(i) = full<i32>(c.doubled ? 2 * c.block : c.block, c.block);
  }
};

std::vector<i32> filled(ConfiguredKernel<Fill>& kernels, const Steps& config) {
  const Tensor z = Tensor::zeros({2}, DType::i32, Device::cpu());
  kernels.of(config)(z);
  return z.to_vector<i32>();
}

TEST(ConfiguredKernel, EachHasItsNumbers) {
  ConfiguredKernel<Fill> kernels("fill", {});
  EXPECT_EQ(filled(kernels, {4, true}), (std::vector<i32>{8, 8}));
  EXPECT_EQ(filled(kernels, {}), (std::vector<i32>{8, 8}));
  EXPECT_EQ(filled(kernels, {16, false}), (std::vector<i32>{16, 16}));
  EXPECT_EQ(&kernels.of({4, true}).instance(), &kernels.of({4, true}).instance());
}

TEST(ConfiguredKernel, RecordsRequestedConfigurations) {
  ConfiguredKernel<Fill> kernels("fill_asked", {});
  filled(kernels, {4, true});
  EXPECT_TRUE(kernels.has([](const Steps& s) { return s.doubled; }));
  EXPECT_FALSE(kernels.has([](const Steps& s) { return s.block == 8; }));
  EXPECT_THROW(kernels.explain([](const Steps& s) { return s.block == 8; }), CompileError);
}

/// A kernel's text contains the preferences of its configuration.
TEST(ConfiguredKernel, PrefersItsPlan) {
  ConfiguredKernel<Fill> kernels("fill_planned", {});
  const Tensor z = Tensor::zeros({2}, DType::i32, Device::cpu());
  const auto text = [&](const Steps& config) { return kernels.of(config).trace(z).text(); };
  EXPECT_THAT(text({4, true}), testing::HasSubstr("prefers(num_warps=2)"));
  EXPECT_THAT(text({4, false}), testing::Not(testing::HasSubstr("prefers")));
}

}  // namespace
}  // namespace tegula::configured_kernel_test
