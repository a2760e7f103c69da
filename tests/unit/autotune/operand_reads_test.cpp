// Bytes of operands that come from the memory, and the choices that follow from them.
#include "autotune/cost/operand_reads.h"

#include <gtest/gtest.h>

#include "autotune/matmul/space.h"
#include "autotune/matmul/work.h"
#include "autotune/profiles/rows.h"
#include "tests/unit/autotune/matmul_problems.h"

namespace tegula::autotune::operand_reads_test {
namespace {

using tegula::test::packed;

MatmulProblem batch_of(std::int64_t batch, MatmulProblem p) {
  p.batch = batch, p.is_batched = true;
  return p;
}

OperandReads reads_of(const MatmulProblem& p, const MatmulConfig& c, const DeviceProfile& gpu) {
  return operand_reads(order_of(p, c), gpu.num_sms, static_cast<double>(gpu.l2_bytes));
}

double operand_bytes(const MatmulProblem& p) {
  return 2.0 * static_cast<double>(p.batch * (p.m * p.k + p.n * p.k));
}

TEST(OperandReads, OperandsThatTheL2HoldsAreReadOnce) {
  for (const MatmulProblem& p :
       {packed(2048, 2048, 2048), batch_of(128, packed(256, 256, 256)), packed(0, 64, 64)}) {
    const OperandReads r = reads_of(p, {.bm = 128, .bn = 128}, kH100);
    EXPECT_EQ(r.in_step, operand_bytes(p));
    EXPECT_EQ(r.out_of_step, operand_bytes(p));
  }
}

/// One wave begins in step and reads each operand once, however large; many waves do not.
TEST(OperandReads, OneWaveReadsOperandsOnce) {
  MatmulProblem p = packed(1024, 4096, 65536);
  const OperandReads one = reads_of(p, {.bm = 128, .bn = 256}, kH100);
  EXPECT_EQ(one.in_step, operand_bytes(p));
  EXPECT_EQ(one.out_of_step, operand_bytes(p));
  p.m *= 16;
  const OperandReads many = reads_of(p, {.bm = 128, .bn = 256}, kH100);
  EXPECT_GT(many.in_step, 1.5 * operand_bytes(p));
  EXPECT_GT(many.out_of_step, 1.5 * many.in_step);
}

/// Bytes that ncu counted (bench/results/sweeps/2026-11-27-grouped-attempts.txt): cuBLAS's tiles
/// keep step on both GPUs, ours on an H200 alone.
TEST(OperandReads, AsCounted) {
  const MatmulProblem p = batch_of(64, packed(512, 4096, 2048, "NT"));
  const MatmulConfig cublas{.bm = 256, .bn = 128}, ours{.bm = 128, .bn = 128, .pingpong = true};
  EXPECT_NEAR(reads_of(p, cublas, kH100).in_step, 1.45e9, 0.2e9);
  EXPECT_NEAR(reads_of(p, cublas, kH200).in_step, 1.44e9, 0.2e9);
  EXPECT_NEAR(reads_of(p, ours, kH200).in_step, 1.64e9, 0.25e9);
  EXPECT_LT(reads_of(p, ours, kH100).in_step, 2.94e9);
  EXPECT_GT(reads_of(p, ours, kH100).out_of_step, 2.7e9);
}

/// Tiles of a single column share no rows, and those of a single row no columns, wherever waves
/// begin in groups and matrices whose last group is lower than the others.
TEST(OperandReads, TilesWithoutSharingReadOperandsOnce) {
  const TileOrder below{.matrices = 28, .rows = 18, .group = 16, .row_bytes = 1 << 23},
      beside{.columns = 58, .group = 16, .column_bytes = 1 << 24};
  for (const TileOrder& t : {below, beside})
    for (const double wave : {0.5, 7.0, 16.5, 132.0}) {
      const double bytes = t.matrices * (t.rows * t.row_bytes + t.columns * t.column_bytes);
      const OperandReads r = operand_reads(t, wave, 1 << 20);
      EXPECT_NEAR(r.in_step, bytes, 1e-6 * bytes) << wave;
      EXPECT_NEAR(r.out_of_step, bytes, 1e-6 * bytes) << wave;
    }
}

TEST(OperandReads, ALargerL2ReadsLess) {
  for (const MatmulProblem& p : {packed(8192, 8192, 8192), batch_of(32, packed(1024, 4096, 4096))})
    for (const MatmulConfig& c : {MatmulConfig{.bm = 128, .bn = 256}, {.bm = 128, .bn = 128}}) {
      const OperandReads small = reads_of(p, c, kH100), large = reads_of(p, c, kH200);
      EXPECT_LT(large.in_step, small.in_step);
      EXPECT_LT(large.out_of_step, small.out_of_step);
      EXPECT_GE(large.in_step, operand_bytes(p));
    }
}

/// Groups of tile rows are about as high as wide: their waves read less than rows alone.
TEST(OperandReads, GroupsOfRowsReadLess) {
  const MatmulProblem p = packed(16384, 16384, 4096);
  EXPECT_LT(1.3 * reads_of(p, {.bm = 128, .bn = 256, .group_m = 8}, kH100).in_step,
            reads_of(p, {.bm = 128, .bn = 256, .group_m = 1}, kH100).in_step);
}

/// Batches whose operands come from the memory: an H100's ping-pong tiles of 128 x 128 took 1.3
/// times as long as 128 x 256. A product of as much work has other operands.
TEST(OperandReads, DecideTilesOfLargeBatches) {
  const MatmulProblem of_64 = batch_of(64, packed(512, 4096, 2048, "NT")),
                      of_32 = batch_of(32, packed(1024, 4096, 4096, "NT")),
                      single = packed(32768, 4096, 2048, "NT");
  for (const MatmulProblem& p : {of_64, of_32}) {
    const MatmulConfig c = choose_matmul(p, kH100);
    EXPECT_EQ(c.bm, 128) << c.str();
    EXPECT_EQ(c.bn, 256) << c.str();
    EXPECT_FALSE(c.pingpong) << c.str();
  }
  EXPECT_TRUE(choose_matmul(single, kH100).pingpong);
  EXPECT_TRUE(choose_matmul(single, kH200).pingpong);
}

/// Tiles of a batch that follow each other are next to each other: a cluster shares rows of A.
TEST(MatmulWork, ClustersOfABatchShareRows) {
  const ir::Target target = limits_of(kH100).target;
  const MatmulConfig c{.bm = 128, .bn = 256, .stages = 4, .multicast = Multicast::b};
  const MatmulProblem p = packed(512, 4096, 2048, "NT");
  EXPECT_EQ(work_of(p, c, target).l2_lines, 128 + 256 / 2);
  EXPECT_EQ(work_of(batch_of(64, p), c, target).l2_lines, 128 / 2 + 256);
}

}  // namespace
}  // namespace tegula::autotune::operand_reads_test
