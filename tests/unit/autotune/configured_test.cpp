// Kernels made for configurations: each once, with the numbers of theirs.
#include "tegula/kernel_variants.h"

#include <gtest/gtest.h>

#include "tegula/tegula.h"

namespace tegula {
namespace {

struct Steps {
  int block = 8;
  bool doubled = false;
  template <class Config, class Visit>
  static void visit_axes(Config& c, const Visit& visit) {
    visit("BLOCK", c.block, {4, 8, 16});
    visit("DOUBLED", c.doubled, {0, 1});
  }
  friend auto operator<=>(const Steps&, const Steps&) = default;
};

struct Fill {
  void operator()(Out<i32, 1> z) const {
    const auto c = tuned<Steps>();
    for (auto i : grid(z, c.block)) z(i) = full<i32>(c.doubled ? 2 * c.block : c.block, c.block);
  }
};

std::vector<i32> filled(KernelVariants<Fill, Steps>& kernels, const Steps& config) {
  const Tensor z = Tensor::zeros({2}, DType::i32, Device::cpu());
  kernels.of(config)(z);
  return z.to_vector<i32>();
}

TEST(KernelVariants, EachHasItsNumbers) {
  KernelVariants<Fill, Steps> kernels("fill", {});
  EXPECT_EQ(filled(kernels, {4, true}), (std::vector<i32>{8, 8}));
  EXPECT_EQ(filled(kernels, {}), (std::vector<i32>{8, 8}));
  EXPECT_EQ(filled(kernels, {16, false}), (std::vector<i32>{16, 16}));
  EXPECT_EQ(&kernels.of({4, true}).instance(), &kernels.of({4, true}).instance());
  EXPECT_THROW(filled(kernels, {5, false}), CompileError);
}

TEST(KernelVariants, KnowsWhatItWasAskedFor) {
  KernelVariants<Fill, Steps> kernels("fill_asked", {});
  filled(kernels, {4, true});
  EXPECT_TRUE(kernels.has([](const Steps& s) { return s.doubled; }));
  EXPECT_FALSE(kernels.has([](const Steps& s) { return s.block == 8; }));
  EXPECT_THROW(kernels.explain([](const Steps& s) { return s.block == 8; }), CompileError);
}

TEST(KernelVariants, ValuesOfTune) {
  EXPECT_EQ(tuning_of(Steps{16, true}), (Tuning{{"BLOCK", 16}, {"DOUBLED", 1}}));
}

}  // namespace
}  // namespace tegula
