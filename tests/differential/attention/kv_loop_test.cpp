// The SIMT form of attention's mainloop: no shuffles for row sums, and both arms of the masks'
// branch contain the instructions after the masks.
#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tests/assemble/assembled.h"

namespace tegula::test::kv_loop_test {
using namespace kernels;
namespace {

struct Step {
  int shuffles = 0;
  int split = 0;  ///< branches with powers in both sides
  friend bool operator==(const Step&, const Step&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Step& s) {
    return out << s.shuffles << " shuffles, " << s.split << " branches of two blocks";
  }
};

int count(const ir::Kernel& k, ir::RegionId r, ir::Opcode opcode) {
  int n = 0;
  ir::walk(k, r, [&](ir::OpId op) { n += k[op].opcode == opcode ? 1 : 0; });
  return n;
}

/// Counts the ops of the innermost loop with MMAs.
Step step_of(const ir::Kernel& tile, const std::string& plan) {
  runtime::CompileRequest request;
  request.target = ir::Target("sm_90a");
  request.planned = ir::parse_plan_request(plan);
  const runtime::Compilation compiled = optimized(tile, request);
  const ir::Kernel& k = compiled.simt;
  std::vector<Step> steps;
  ir::walk(k, k.body(), [&](ir::OpId loop) {
    if (k[loop].opcode != ir::Opcode::For) return;
    const ir::RegionId body = k[loop].regions[0];
    if (count(k, body, ir::Opcode::For) > 0) return;  // the loop over tiles
    bool multiplies = false;
    Step step{count(k, body, ir::Opcode::Shfl), 0};
    for (ir::OpId op : k.ops(body)) {
      multiplies = multiplies || k[op].opcode == ir::Opcode::Wgmma;
      step.split += k[op].opcode == ir::Opcode::If &&
                            count(k, k[op].regions[0], ir::Opcode::Exp2) > 0 &&
                            count(k, k[op].regions[1], ir::Opcode::Exp2) > 0
                        ? 1
                        : 0;
    }
    if (multiplies) steps.push_back(step);
  });
  EXPECT_EQ(steps.size(), 1);
  return steps.empty() ? Step() : steps.front();
}

ir::Kernel attention_of(Rescaling rescaling, Mask mask, int dim) {
  const Attention attention({.mask = std::move(mask)}, {}, {.rescaling = rescaling});
  const Tensor t = host({1, 1, 64, dim}), O = host({1, 1, 64, dim});
  return traced("attention", [&] { attention(t, t, t, O); });
}

/// Counts shuffles over four lanes, two rows at once: those of maxima, and of sums if not deferred.
TEST(StepForm, SumsAreAddedAfterTheLoop) {
  for (const int dim : {64, 128}) {
    SCOPED_TRACE(dim);
    const ir::Kernel exact = attention_of(Rescaling::exact, masks::causal(), dim),
                     never = attention_of(Rescaling::never, masks::causal(), dim);
    EXPECT_EQ(step_of(exact, "defer_cross_lane_reductions=0"), (Step{4, 0}));
    EXPECT_EQ(step_of(exact, ""), (Step{2, 0}));
    EXPECT_EQ(step_of(never, "defer_cross_lane_reductions=0"), (Step{2, 0}));
    EXPECT_EQ(step_of(never, ""), (Step{0, 0}));
  }
}

}  // namespace
}  // namespace tegula::test::kv_loop_test
