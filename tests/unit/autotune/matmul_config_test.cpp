// Choices of GEMMs' configurations, on both rows of the device profiles.
#include "tegula/matmul_config.h"

#include <gmock/gmock.h>

#include "autotune/profiles/rows.h"
#include "tests/unit/autotune/matmul_problems.h"

namespace tegula::matmul_config_test {
namespace {

using tegula::test::packed;
using testing::HasSubstr;

std::string chosen(const MatmulProblem& p, const DeviceProfile& gpu = host_profile()) {
  return choose_matmul(p, gpu).str();
}
MatmulProblem batched(MatmulProblem p, std::int64_t batch) {
  p.batch = batch, p.is_batched = true;
  return p;
}
MatmulProblem gated(MatmulProblem p) {
  p.gates = 2;
  return p;
}
MatmulProblem with_matrix(MatmulProblem p) {
  p.epilogue_matrices = 1;
  return p;
}

/// Shapes that lost to cuBLAS because a cost was missing or a threshold stood for one
/// (docs/configuration.md).
TEST(MatmulConfig, ShapesThatLost) {
  for (const DeviceProfile* gpu : autotune::kProfiles) {
    SCOPED_TRACE(gpu->name);
    // The batch counts as tiles: large ones, not a deep ring of small ones.
    const MatmulConfig batch = choose_matmul(batched(packed(512, 512, 512), 48), *gpu);
    EXPECT_GE(batch.bm * batch.bn, 128 * 128) << batch.str();
    // One wave of 128 x 256 leaves nothing behind the edges; 11 x 11 of 192 x 192 do 6 %.
    EXPECT_THAT(chosen(packed(2048, 2048, 100000, "NT"), *gpu), HasSubstr("128x256x64"));
    EXPECT_EQ(chosen(packed(2048, 2048, 100000, "NT", DType::f32), *gpu), "128x256x32 stages 4");
    // Reading B once, element by element, moves half of what repacking it does.
    EXPECT_EQ(chosen(packed(64, 65537, 64), *gpu), "64x64x64 direct");
    // Rings as deep as shared memory, of lines that share no memory rows.
    EXPECT_THAT(chosen(packed(33, 8200, 2056), *gpu), HasSubstr("64x64x64 stages"));
    // Tiles that share columns of B.
    EXPECT_THAT(chosen(packed(1000, 2056, 1096), *gpu), HasSubstr("multicast b"));
    // A sum by a second kernel is cheaper than twice the k-iterations in each CTA.
    EXPECT_EQ(chosen(packed(512, 512, 8192), *gpu), "64x128x64 split_k 4 stages 8");
    // A ring over the k of its own rows crowds nothing: no more CTAs with short rings.
    EXPECT_GE(choose_matmul(packed(8192, 128, 8192), *gpu).stages, 7);
    // Rows across lines: as few requests as one multicast operand allows.
    EXPECT_EQ(chosen(packed(3000, 3000, 3000), *gpu), "192x192x64 multicast b stages 4");
  }
}

/// Measured as the fastest, or within 3 % of that, on an H200 (bench/results/sweeps).
TEST(MatmulConfig, ShapesThatWereFast) {
  const std::pair<MatmulProblem, const char*> kChoices[] = {
      {packed(8192, 8192, 8192), "128x192x64 stages 5"},
      {packed(4096, 4096, 4096), "128x256x64 stages 4"},
      {packed(16384, 4096, 4096), "128x128x64 multicast b pingpong tma_store"},
      {packed(8192, 8192, 1024), "128x128x64 pingpong"},
      {packed(3072, 3072, 12288), "128x192x64 stages 5"},
      {packed(2048, 2048, 2048), "128x256x64 stages 4"},
      {packed(1024, 1024, 1024), "64x128x64 stages 8"},
      {packed(128, 4096, 4096), "64x128x64 cluster_split_k 2 stages 8"},
      {packed(64, 4096, 4096), "64x64x64 cluster_split_k 2 stages 8"},
      {packed(16, 4096, 14336), "16x64x64 cluster_split_k 4 stages 4"},
      {packed(16, 14336, 4096), "16x64x64 cluster_split_k 2 stages 3"},
      {packed(8192, 128, 8192), "128x128x64 cluster_split_k 2 stages 7"},
      {packed(12160, 128, 15104), "96x128x64 swap_ab stages 8"},
      {packed(520, 4104, 2056), "88x192x64 swap_ab multicast b stages 6"},
      {packed(8200, 8200, 8136), "192x192x64 multicast b stages 4"},
      {packed(4096, 4096, 4096, "NT", DType::f8e4m3), "128x128x128 pingpong tma_store"},
      {with_matrix(packed(4096, 4096, 4096)), "128x128x64 multicast b pingpong tma_store"},
      {gated(packed(4096, 4096, 4096)), "128x128x64 stages 4"},
  };
  for (const auto& [p, config] : kChoices)
    EXPECT_EQ(chosen(p), config) << p.m << "x" << p.n << "x" << p.k;
}

/// Ragged rows: measured on an H200 as the fastest of 14 configurations, or within 4 % of that
/// (docs/experiments/2026-11-29-random-products.md).
TEST(MatmulConfig, RaggedRows) {
  const auto chosen_fp8 = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return chosen(packed(m, n, k, "NT", DType::f8e4m3));
  };
  EXPECT_EQ(chosen(packed(130, 5120, 13824)), "136x128x64 split_k 3 swap_ab stages 6");
  EXPECT_EQ(chosen(packed(386, 11336, 6248)), "200x192x64 swap_ab multicast b stages 4");
  EXPECT_EQ(chosen(packed(5000, 640, 10240)), "200x128x64 swap_ab stages 5");
  EXPECT_EQ(chosen(packed(18064, 80, 9696)), "144x128x64 swap_ab multicast b stages 6");
  EXPECT_EQ(chosen_fp8(130, 5120, 13824), "136x128x128 split_k 3 swap_ab stages 6");
  EXPECT_EQ(chosen_fp8(2500, 6992, 1296), "192x192x128 multicast b stages 4");
}

/// However many columns there are, and of whatever type: an iteration is as long as a line, and a
/// ring has slots.
TEST(MatmulConfig, FewRowsOfAnyWidth) {
  for (const DType type : {DType::bf16, DType::i8, DType::f8e4m3, DType::f32})
    for (const int gates : {1, 2})
      for (const std::int64_t m : {1, 16, 33, 64})
        for (const std::int64_t n : {28672, 29256, 32000, 128256, 1000000})
          for (const std::int64_t k : {64, 768, 8192}) {
            MatmulProblem p = packed(m, n, k, "NN", type);
            p.gates = gates;
            p.fp32_promotion = type == DType::f8e4m3;
            const MatmulConfig c = choose_matmul(p, host_profile());
            SCOPED_TRACE(testing::Message()
                         << name(type) << " " << m << "x" << n << "x" << k << " " << c.str());
            EXPECT_TRUE(c.stages >= 3 || c.pingpong || c.operands == OperandPath::direct);
            EXPECT_EQ(c.bk * size_bytes(type), 128);
            EXPECT_LE(c.bm, 64);
            EXPECT_LE(c.bn * gates, p.fp32_promotion ? 128 : 256);
          }
}

/// wgmma has no 40 or 56 columns of integers, and tiles of something where nothing is to be
/// computed.
TEST(MatmulConfig, ColumnsOfIntegersAndEmptyResults) {
  for (int m = 33; m <= 64; ++m)
    EXPECT_EQ(choose_matmul(packed(m, 8192, 512, "NT", DType::i8), host_profile()).bm % 16, 0);
  for (const DType type : {DType::bf16, DType::i8, DType::f32})
    for (const auto& [m, n, k] : {std::array{0, 64, 64}, {64, 0, 64}, {64, 64, 0}, {0, 0, 0}}) {
      EXPECT_GT(choose_matmul(packed(m, n, k, "NT", type), host_profile()).bm, 0);
      EXPECT_GT(choose_matmul(batched(packed(m, n, k, "NT", type), 0), host_profile()).bm, 0);
      EXPECT_GT(choose_matmul(gated(packed(m, n, k, "NT", type)), host_profile()).bm, 0);
    }
}

/// Operands that are repacked anyway: small k is read directly where that is one wave or few.
TEST(MatmulConfig, OperandsThatTmaCannotLoad) {
  EXPECT_EQ(chosen(packed(83, 495, 79)), "64x64x64 direct");
  EXPECT_THAT(chosen(packed(595, 7667, 241)), Not(HasSubstr("direct")));
  EXPECT_THAT(chosen(packed(9999, 9999, 119)), Not(HasSubstr("direct")));
  EXPECT_THAT(chosen(packed(83, 495, 79, "NN", DType::i8)), Not(HasSubstr("direct")));
}

TEST(MatmulConfig, WithoutWgmma) {
  DeviceProfile a100 = host_profile();
  a100.capability = 80;
  MatmulProblem fma = packed(64, 64, 64, "NN", DType::f32);
  fma.tf32 = false;
  EXPECT_EQ(chosen(fma), "64x64x16");
  EXPECT_EQ(chosen(packed(64, 64, 64, "NT", DType::i8), a100), "64x64x64");
  EXPECT_EQ(chosen(packed(999, 999, 999), a100), "128x128x32");
  EXPECT_EQ(chosen(packed(9, 999, 999), a100), "64x128x32");
}

/// Tiles are cut, and k split, for the waves of the GPU at hand.
TEST(MatmulConfig, OtherNumbersOfMultiprocessors) {
  const auto of = [](std::int64_t m, std::int64_t n, std::int64_t k, int sms) {
    DeviceProfile gpu = host_profile();
    gpu.num_sms = sms;
    return choose_matmul(packed(m, n, k), gpu);
  };
  // 128 tiles are one wave; with fewer multiprocessors, wider ones are.
  EXPECT_EQ(of(512, 4096, 4096, 132).bn, 128);
  EXPECT_EQ(of(512, 4096, 4096, 114).bn, 192);
  EXPECT_GT(of(1024, 512, 8192, 132).parts, 1);
  EXPECT_EQ(of(1024, 512, 8192, 32).parts, 1);
}

/// 13 x 10 tiles of 128 x 160 are one wave; no width of power of two is, and in rows of B others
/// are loaded in pieces.
TEST(MatmulConfig, OddWidthsSaveWaves) {
  EXPECT_EQ(choose_matmul(packed(1664, 1600, 4096, "NT"), host_profile()).bn, 160);
  EXPECT_NE(choose_matmul(packed(1664, 1600, 4096), host_profile()).bn, 160);
}

/// No width that spills beside what an epilogue reads.
TEST(MatmulConfig, WidthsWithEpilogueMatrices) {
  bool is_taken = false;
  for (std::int64_t n = 704; n <= 8192; n += 16) {
    const MatmulProblem p = packed(1408, n, 4096, "NT");
    is_taken |= choose_matmul(p, host_profile()).bn == 176;
    EXPECT_NE(choose_matmul(with_matrix(p), host_profile()).bn, 176) << n;
  }
  EXPECT_TRUE(is_taken) << "elsewhere it is a width like others";
}

TEST(MatmulConfig, ADevice) {
  const MatmulProblem p = packed(4096, 4096, 4096);
  EXPECT_EQ(choose_matmul(p, Device::sim()).str(), chosen(p));
}

}  // namespace
}  // namespace tegula::matmul_config_test
