// The space of kernels of whole rows: sound, and what the model takes.
#include "autotune/rows/space.h"

#include <gtest/gtest.h>

#include "tests/unit/autotune/sound_space.h"

namespace tegula::autotune::row_space_test {
namespace {

RowConfig chosen(std::int64_t columns, RowKernel kernel = RowKernel::softmax, int capability = 90,
                 DType type = DType::bf16) {
  DeviceProfile gpu = host_profile();
  gpu.capability = capability;
  return choose_rows({4096, columns, kernel, type}, gpu);
}

TEST(RowSpace, IsSound) {
  std::vector<RowProblem> all;
  for (const std::int64_t columns :
       {0, 1, 100, 1024, 5000, 16384, 20000, 32768, 40000, 65536, 70000, 131072, 200000})
    for (const RowKernel kernel : {RowKernel::norm, RowKernel::softmax, RowKernel::softmax_backward,
                                   RowKernel::hadamard, RowKernel::quantise})
      if (kernel != RowKernel::hadamard || columns <= 32768) all.push_back({4096, columns, kernel});
  test::expect_sound(row_space(), all);
}

TEST(RowSpace, TheModelHoldsRowsAsLongAsItCan) {
  EXPECT_EQ(chosen(1), (RowConfig{.tile_rows = 64}));
  EXPECT_EQ(chosen(100), (RowConfig{.tile_rows = 32}));
  EXPECT_EQ(chosen(1024), (RowConfig{.tile_rows = 4}));
  EXPECT_EQ(chosen(1025), RowConfig{});
  EXPECT_EQ(chosen(32768), RowConfig{});
  EXPECT_EQ(chosen(32769), (RowConfig{RowMethod::cluster, 1, 4, 16384}));
  EXPECT_EQ(chosen(65537), (RowConfig{RowMethod::cluster, 1, 8, 16384}));
  EXPECT_EQ(chosen(65536, RowKernel::softmax, 90, DType::f32),
            (RowConfig{RowMethod::cluster, 1, 8, 8192}));
  EXPECT_EQ(chosen(131073), RowConfig{RowMethod::two_pass});
  EXPECT_EQ(chosen(16385, RowKernel::softmax_backward),
            (RowConfig{RowMethod::cluster, 1, 8, 4096}));
  EXPECT_EQ(chosen(32769, RowKernel::softmax_backward),
            (RowConfig{RowMethod::cluster, 1, 4, 16384}));
  EXPECT_EQ(chosen(32769, RowKernel::norm), RowConfig{RowMethod::two_pass});
  EXPECT_EQ(chosen(256, RowKernel::hadamard), (RowConfig{.tile_rows = 16}));
  EXPECT_EQ(chosen(32769, RowKernel::quantise), RowConfig{RowMethod::two_pass});
  EXPECT_EQ(chosen(32769, RowKernel::softmax, 80), RowConfig{RowMethod::two_pass});
}

TEST(RowSpace, KernelsWithOneOrderOfSumsHaveOneClassOfBits) {
  const Limits gpu = limits_of(host_profile());
  const RowConfig one, four{.tile_rows = 4};
  const auto bits = [&](RowKernel kernel, const RowConfig& c) {
    return row_space().numerics({4096, 256, kernel}, c, gpu);
  };
  EXPECT_EQ(bits(RowKernel::hadamard, one), bits(RowKernel::hadamard, four));
  EXPECT_EQ(bits(RowKernel::quantise, one), bits(RowKernel::quantise, four));
  EXPECT_NE(bits(RowKernel::norm, one), bits(RowKernel::norm, four));
}

}  // namespace
}  // namespace tegula::autotune::row_space_test
