// Choices of the estimate: large tiles for large matrices, split-K for few tiles, odd widths where
// they save a wave and B permits them.
#include "tegula/matmul_config.h"

#include <gtest/gtest.h>

namespace tegula {
namespace {

TEST(MatmulConfig, LargeAndSmall) {
  EXPECT_EQ(matmul_config({8192, 8192, 8192}).bm, 128);
  EXPECT_EQ(matmul_config({1024, 4096, 2048}).bm, 128);
  EXPECT_GT(matmul_config({512, 512, 8192}).split_k, 1);
  EXPECT_EQ(matmul_config({.m = 512, .n = 512, .k = 8192, .no_split_k = true}).split_k, 1);
  EXPECT_EQ(matmul_config({.m = 8192, .n = 8192, .k = 8192, .operands = DType::f8e4m3}).bk, 128);
}

/// Ping-pong, if an SM has several tiles, unless a warpgroup has two accumulators of each. Whole
/// rows, results by TMA and multicast operands follow from it.
TEST(MatmulConfig, ManyTilesPingpong) {
  EXPECT_EQ(matmul_config({8192, 8192, 1024}).str(), "128x128x64 pingpong");
  EXPECT_EQ(matmul_config({4096, 4096, 4096}).str(), "128x128x64 pingpong tma_store");
  EXPECT_EQ(matmul_config({.m = 8192, .n = 8192, .k = 8192, .operands = DType::f8e4m3}).str(),
            "128x128x128 pingpong tma_store");
  EXPECT_FALSE(
      matmul_config(
          {.m = 8192, .n = 8192, .k = 1024, .operands = DType::f8e4m3, .fp32_promotion = true})
          .pingpong);
  EXPECT_FALSE(matmul_config({1024, 1024, 4096}).pingpong);
  EXPECT_EQ(matmul_config({12096, 1472, 10368}).str(), "128x128x64 multicast pingpong tma_store");
  EXPECT_FALSE(matmul_config({3072, 3072, 12288}).pingpong) << "a last wave of a few tiles";
  EXPECT_EQ(matmul_config({.m = 4096, .n = 4096, .k = 4096, .has_epilogue_tensors = true}).str(),
            "128x128x64 multicast pingpong tma_store");
  EXPECT_EQ(matmul_config({.m = 8192, .n = 8192, .k = 1024, .has_epilogue_tensors = true}).str(),
            "128x128x64 multicast pingpong");
}

/// No tile of which half would be empty.
TEST(MatmulConfig, TilesAreFilled) {
  EXPECT_EQ(matmul_config({64, 4096, 4096}).bm, 64);
  EXPECT_EQ(matmul_config({64, 4096, 14336}).bm, 64);
}

TEST(MatmulConfig, FewRowsLieAlongTheInstructionsColumns) {
  EXPECT_TRUE(matmul_config({1, 1024, 4096}).swap_ab);
  EXPECT_EQ(matmul_config({1, 1024, 4096}).bm, 8);
  // Eight of a column of A are less than TMA swizzles.
  EXPECT_EQ(matmul_config({.m = 1, .n = 1024, .k = 4096, .a_k_major = false}).bm, 16);
  EXPECT_TRUE(matmul_config({17, 1024, 4096}).swap_ab);
  EXPECT_FALSE(matmul_config({128, 4096, 4096}).swap_ab);
}

/// Weights that take long to read are read by CTAs of a warp, in clusters that share k: so many
/// that all SMs have some, with no more under way than is good.
TEST(MatmulConfig, FewRowsOfLargeWeightsAreTilesOfMma) {
  const auto config = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return matmul_config({m, n, k}).str();
  };
  for (const std::int64_t m : {1, 8, 16}) {
    EXPECT_EQ(config(m, 4096, 4096), "16x64x64 cluster_split_k 4 stages 4");
    EXPECT_EQ(config(m, 4096, 14336), "16x64x64 cluster_split_k 4 stages 4");
    EXPECT_EQ(config(m, 14336, 4096), "16x64x64 cluster_split_k 2 stages 3");
    EXPECT_EQ(config(m, 28672, 8192), "16x64x64 cluster_split_k 2 stages 3");
    EXPECT_EQ(config(m, 8192, 28672), "16x64x64 cluster_split_k 2 stages 4");
    EXPECT_EQ(config(m, 2048, 8192), "16x64x64 cluster_split_k 8 stages 4");
  }
  EXPECT_EQ(config(17, 4096, 4096), "32x64x64 cluster_split_k 4 stages 4");
  EXPECT_EQ(config(32, 14336, 4096), "32x64x64 cluster_split_k 2 stages 3");
  EXPECT_EQ(matmul_config({.m = 16, .n = 4096, .k = 4096, .num_sms = 66}).split_k, 2)
      << "fewer SMs";
  const auto is_of_mma = [](const MatmulProblem& p) {
    return matmul_config(p).bm == 16 && !matmul_config(p).swap_ab;
  };
  EXPECT_TRUE(is_of_mma({16, 4096, 4096}));
  EXPECT_FALSE(is_of_mma({16, 1024, 1024})) << "small weights";
  EXPECT_FALSE(is_of_mma({16, 200'000, 64})) << "too short to be shared";
  EXPECT_FALSE(is_of_mma({.m = 16, .n = 4096, .k = 4096, .operands = DType::f8e4m3}));
  EXPECT_FALSE(is_of_mma({.m = 16, .n = 4096, .k = 4096, .no_split_k = true}))
      << "no clusters of batches";
  EXPECT_FALSE(is_of_mma({.m = 16, .n = 4096, .k = 4096, .needs_repack = true}));
  EXPECT_FALSE(is_of_mma({.m = 16, .n = 4096, .k = 4096, .b_k_major = true})) << "not measured";
  EXPECT_FALSE(is_of_mma({16, 4097, 4096})) << "columns in longer rows: no pieces of 16 bytes";
  EXPECT_FALSE(is_of_mma({16, 4096, 4097}));
  EXPECT_TRUE(is_of_mma({.m = 13, .n = 4096, .k = 4096, .operands = DType::f16}));
  EXPECT_FALSE(is_of_mma({.m = 13, .n = 4096, .k = 4096, .a_k_major = false}));
  EXPECT_TRUE(is_of_mma({.m = 16, .n = 4096, .k = 4097 - 8, .a_k_major = false}));
}

/// Where SMs hold one tile each at most, what is under way must last as long as the memory takes.
TEST(MatmulConfig, FewTilesHaveDeepRings) {
  EXPECT_EQ(matmul_config({1024, 1024, 1024}).stages, 8);
  EXPECT_EQ(matmul_config({64, 4096, 4096}).stages, 8);
}

/// Unless so many read at once that each takes longer.
TEST(MatmulConfig, ManyCtasOfFewRowsHaveShallowRings) {
  EXPECT_EQ(matmul_config({.m = 32, .n = 28672, .k = 8192, .b_k_major = true}).stages, 3);
  EXPECT_EQ(matmul_config({64, 28672, 8192}).stages, 3);
}

/// However many columns there are, and of whatever type: a step is as long as a line, and a ring
/// has slots.
TEST(MatmulConfig, FewRowsOfAnyWidth) {
  struct Type {
    DType operands;
    bool tf32 = false, fp32_promotion = false;
  };
  for (const Type& type :
       {Type{DType::bf16}, {DType::i8}, {DType::f8e4m3, false, true}, {DType::f32, true}})
    for (const bool is_gated : {false, true})
      for (const std::int64_t m : {1, 16, 33, 64})
        for (const std::int64_t n : {28672, 29256, 32000, 128256, 1000000})
          for (const std::int64_t k : {64, 768, 8192}) {
            const MatmulProblem p{.m = m,
                                  .n = n,
                                  .k = k,
                                  .operands = type.operands,
                                  .tf32 = type.tf32,
                                  .fp32_promotion = type.fp32_promotion};
            const MatmulConfig c = is_gated ? gated_matmul_config(p) : matmul_config(p);
            SCOPED_TRACE(testing::Message() << name(type.operands) << " " << m << "x" << n << "x"
                                            << k << " " << c.str());
            EXPECT_TRUE(c.stages >= 3 || c.pingpong);
            EXPECT_EQ(c.bk * size_bytes(type.operands), 128);
            const bool is_of_mma = c.split_k_in_cluster && c.bm <= 32;
            EXPECT_TRUE(c.swap_ab != (is_gated || is_of_mma) || m > 32);
            EXPECT_TRUE(c.swap_ab || c.bm <= 64);
            EXPECT_LE(c.bn, type.fp32_promotion ? 128 : 256);
          }
}

/// Where one tile holds all columns, a height of its own fills the only wave; not where it would be
/// as high as usual ones, or there are more columns, or few steps.
TEST(MatmulConfig, NarrowMatmulsFillTheOnlyWave) {
  EXPECT_EQ(matmul_config({12160, 128, 15104}).str(), "96x128x64 swap_ab stages 8");
  EXPECT_EQ(matmul_config({9000, 96, 8192}).str(), "72x128x64 swap_ab stages 8");
  MatmulProblem p{13000, 96, 8192};
  p.is_b_line_aligned = false;
  EXPECT_EQ(matmul_config(p).str(), "104x128x64 swap_ab multicast stages 7");
  for (const MatmulProblem& other : {MatmulProblem{8192, 128, 8192},
                                     {16000, 128, 8192},
                                     {12160, 136, 8192},
                                     {12160, 64, 8192},
                                     {12160, 128, 1024}})
    EXPECT_FALSE(matmul_config(other).swap_ab) << matmul_config(other).str();
  MatmulProblem along_k{12160, 128, 15104};
  along_k.b_k_major = true;
  EXPECT_FALSE(matmul_config(along_k).swap_ab) << "not measured";
}

/// Rows across two lines of the L2 cost twice the bandwidth: tiles are larger.
TEST(MatmulConfig, RowsAcrossLines) {
  MatmulProblem p{1000, 2056, 1096};
  const MatmulConfig with_lines = matmul_config(p);
  p.is_a_line_aligned = p.is_b_line_aligned = false;
  EXPECT_GT(matmul_config(p).bn, with_lines.bn) << matmul_config(p).str();
}

/// Unaligned rows: pairs of tiles share their loads, and a height of its own fills the only wave;
/// not if rows are 128-byte aligned, B's columns come in any number, A's rows do not, or numbers
/// are other.
TEST(MatmulConfig, RowsAcrossLinesAreShared) {
  MatmulProblem p{1000, 2056, 1096};
  p.is_a_line_aligned = p.is_b_line_aligned = false;
  EXPECT_EQ(matmul_config(p).str(), "128x192x64 multicast stages 5");
  p.operands = DType::f8e4m3;
  EXPECT_FALSE(matmul_config(p).multicast);
  MatmulProblem flat{520, 4104, 2056};
  flat.is_a_line_aligned = flat.is_b_line_aligned = false;
  EXPECT_EQ(matmul_config(flat).str(), "88x192x64 swap_ab multicast stages 6");
  flat.a_k_major = false;
  EXPECT_EQ(matmul_config(flat).str(), "128x192x64 multicast stages 5");
  MatmulProblem large{8200, 8200, 8136};
  EXPECT_FALSE(matmul_config(large).multicast);
  large.is_a_line_aligned = large.is_b_line_aligned = false;
  EXPECT_TRUE(matmul_config(large).multicast) << matmul_config(large).str();
  large.no_split_k = true;
  EXPECT_FALSE(matmul_config(large).multicast);
}

/// Parts of k are added in a cluster where all clusters run at once.
TEST(MatmulConfig, PartsInAWaveAreClusters) {
  const MatmulConfig c = matmul_config({128, 4096, 4096});
  EXPECT_TRUE(c.split_k_in_cluster && c.split_k == 2) << c.str();
  EXPECT_FALSE(matmul_config({8192, 8192, 8192}).split_k_in_cluster);
}

/// A ragged matmul takes the tile that fills its last wave, not the largest. Two matmuls at once
/// are as wide as one of twice the columns; k is whole.
TEST(MatmulConfig, Gated) {
  for (const std::int64_t n : {64, 512, 1472, 4096}) {
    MatmulConfig c = gated_matmul_config({300, n, 1024});
    c.bn *= 2;
    EXPECT_EQ(c, matmul_config({.m = 300, .n = 2 * n, .k = 1024, .no_split_k = true})) << n;
  }
  EXPECT_EQ(gated_matmul_config({512, 256, 8192}).split_k, 1);
  EXPECT_EQ(gated_matmul_config({4096, 4096, 4096}).str(), "64x128x64 pingpong");
}

TEST(MatmulConfig, FewWaves) { EXPECT_EQ(matmul_config({1280, 10112, 3520}).bn, 128); }

TEST(MatmulConfig, WithoutWgmma) {
  EXPECT_EQ(matmul_config({.m = 64, .n = 64, .k = 64, .operands = DType::f32}).str(), "64x64x16");
  EXPECT_EQ(
      matmul_config({.m = 64, .n = 64, .k = 64, .operands = DType::i8, .has_wgmma = false}).str(),
      "64x64x64");
}

TEST(MatmulConfig, RowsThatAreNotAligned) {
  EXPECT_EQ(matmul_config({.m = 999, .n = 999, .k = 999, .has_wgmma = false}).str(), "128x128x32");
  EXPECT_EQ(matmul_config({.m = 9, .n = 999, .k = 999, .has_wgmma = false}).str(), "64x128x32");
}

/// Two launches take longer than a matmul of a few k-iterations; one of many has the faster
/// instructions.
TEST(MatmulConfig, FewStepsOfOperandsThatWouldBeCopied) {
  MatmulProblem p{6739, 123, 119};
  EXPECT_FALSE(matmul_config(p).no_repack);
  p.needs_repack = true;
  EXPECT_EQ(matmul_config(p).str(), "64x64x64") << "more than one round of tiles";
  EXPECT_EQ(matmul_config({.m = 83, .n = 495, .k = 79, .needs_repack = true}).str(),
            "64x64x64 no_repack");
  EXPECT_FALSE(matmul_config({.m = 595, .n = 7667, .k = 241, .needs_repack = true}).no_repack);
  EXPECT_FALSE(matmul_config({.m = 9999, .n = 9999, .k = 119, .needs_repack = true}).no_repack);
  EXPECT_FALSE(
      matmul_config({.m = 83, .n = 495, .k = 79, .operands = DType::i8, .needs_repack = true})
          .no_repack);
}

/// Of the slots of a ring, a program with one tile fills as many as it has steps.
TEST(MatmulConfig, FewStepsHaveShallowRings) {
  EXPECT_EQ(matmul_config({83, 495, 79}).stages, 4);
  EXPECT_EQ(matmul_config({128, 512, 128}).stages, 4);
}

/// 13 x 10 tiles of 128 x 160 are one wave; no even width is.
TEST(MatmulConfig, OddWidthsSaveWaves) {
  const MatmulProblem nn{1664, 1600, 4096};
  MatmulProblem nt = nn;
  nt.b_k_major = true;
  EXPECT_EQ(matmul_config(nt).bn, 160) << matmul_config(nt).str();
  EXPECT_NE(matmul_config(nn).bn, 160);
}

/// No width that spills beside what an epilogue reads.
TEST(MatmulConfig, WidthsWithEpilogueTensors) {
  bool is_taken = false;
  for (std::int64_t n = 704; n <= 8192; n += 16) {
    MatmulProblem p{1408, n, 4096};
    p.b_k_major = true;
    is_taken = is_taken || matmul_config(p).bn == 176;
    p.has_epilogue_tensors = true;
    EXPECT_NE(matmul_config(p).bn, 176) << n;
  }
  EXPECT_TRUE(is_taken) << "elsewhere it is a width like others";
}

/// Tiles are cut, and k split, for the waves of the GPU at hand.
TEST(MatmulConfig, OtherNumbersOfMultiprocessors) {
  const auto of = [](std::int64_t m, std::int64_t n, std::int64_t k, int sms) {
    return matmul_config({.m = m, .n = n, .k = k, .num_sms = sms}).str();
  };
  // 128 tiles are one wave, or with fewer multiprocessors 88 wider ones.
  EXPECT_EQ(of(512, 4096, 4096, 132), "128x128x64 stages 7");
  EXPECT_EQ(of(512, 4096, 4096, 114), "128x192x64 stages 5");
  EXPECT_EQ(of(1024, 512, 8192, 132), "64x128x64 cluster_split_k 2 stages 8");
  EXPECT_EQ(of(1024, 512, 8192, 32), "128x128x64 stages 7");
  EXPECT_EQ(of(4096, 4096, 4096, 132), matmul_config({4096, 4096, 4096}).str());
}

}  // namespace
}  // namespace tegula
