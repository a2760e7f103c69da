// Reductions over a loop, as threads execute it: no shuffles in the loop.
#include <gtest/gtest.h>

#include "codegen/lower/lower_simt.h"
#include "ir/pipeline.h"
#include "ir/text.h"
#include "support/text.h"

namespace tegula::codegen::late_sums_test {
namespace {

/// Shuffles inside of loops and after them, of a kernel among the file tests.
struct Shuffles {
  int in_loops = 0, elsewhere = 0;
  friend bool operator==(const Shuffles&, const Shuffles&) = default;
};
Shuffles shuffles(const std::string& name, const char* plan) {
  const std::string file =
      std::string(TEGULA_SOURCE_DIR) + "/tests/filetests/defer_cross_lane_reductions/" + name;
  ir::Kernel k = ir::parse(read_file(file), file);
  ir::PassContext context;
  context.planned = ir::parse_plan_request(plan);
  ir::run_pipeline(k, ir::ir_passes(), context);
  lower_simt(k, context);
  Shuffles found;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    if (k[op].opcode != ir::Opcode::Shfl) return;
    const ir::OpId owner = k[k[op].parent].owner;
    ++(owner && k[owner].opcode == ir::Opcode::For ? found.in_loops : found.elsewhere);
  });
  return found;
}

/// Four folds over 16 lanes each.
TEST(DeferReductions, ShuffleAfterTheLoop) {
  const Shuffles without = shuffles("rows.tir", "defer_cross_lane_reductions=0"),
                 with = shuffles("rows.tir", "");
  EXPECT_EQ(without.in_loops, 16);
  EXPECT_EQ(with.in_loops, 0);
  EXPECT_EQ(with.elsewhere, without.elsewhere + 16);
}

/// A maximum that the step needs stays in it.
TEST(DeferReductions, ReductionsThatAnIterationNeedsStay) {
  EXPECT_EQ(shuffles("whole.tir", "defer_cross_lane_reductions=0"), (Shuffles{10, 0}));
  EXPECT_EQ(shuffles("whole.tir", ""), (Shuffles{5, 5}));
  EXPECT_EQ(shuffles("left_alone.tir", "").in_loops,
            shuffles("left_alone.tir", "defer_cross_lane_reductions=0").in_loops);
}

}  // namespace
}  // namespace tegula::codegen::late_sums_test
