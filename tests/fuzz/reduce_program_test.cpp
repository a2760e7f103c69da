// Reduction of failing programs: with a planted fault, the reduced program shows the fault and has
// little else.
#include "tests/fuzz/reduce_program.h"

#include <gtest/gtest.h>

#include "tests/fuzz/random_program_memory.h"

namespace tegula::fuzz::reduce_program_test {
namespace {

/// Returns the program after a faulty pass that exchanges the operands of each `op`.
ir::Kernel with_exchanged_operands(const ir::Kernel& k, ir::Opcode op) {
  ir::Kernel faulty = ir::clone(k);
  ir::walk(faulty, faulty.body(), [&](ir::OpId o) {
    if (faulty[o].opcode == op) std::swap(faulty[o].operands[0], faulty[o].operands[1]);
  });
  return faulty;
}

std::string shown_fault(const KernelCall& p, ir::Opcode op) {
  Arguments want = p.args, got = p.args;
  const ir::EvalOptions options{
      .check = true, .shuffle_seed = {}, .threads = 1, .loop_limit = 1000};
  try {
    if (!ir::evaluate(p.kernel, eval_args(want), options).clean()) return "";
    const ir::Kernel faulty = with_exchanged_operands(p.kernel, op);
    if (!ir::verify(faulty).empty()) return "";
    if (!ir::evaluate(faulty, eval_args(got), options).clean()) return "";
  } catch (const std::exception&) {
    return "";
  }
  for (Argument& a : want) a.tolerance = 0;
  return difference(want, got);
}

TEST(ReducedPrograms, ShowAPlantedFaultAndLittleElse) {
  int reduced = 0;
  for (std::uint64_t seed = 1; seed < 600 && reduced < 6; ++seed) {
    RandomProgram r(seed, kStandardFeatures);
    const KernelCall p(std::move(r.kernel), std::move(r.args));
    const ir::Opcode op = seed % 2 == 0 ? ir::Opcode::Sub : ir::Opcode::Shl;
    const Fails fails = [op](const KernelCall& q) { return shown_fault(q, op); };
    if (fails(p).empty()) continue;
    ++reduced;
    const KernelCall small = ProgramReducer(fails).reduce(p);
    SCOPED_TRACE(testing::Message() << "seed " << seed << "\n" << ir::print(small.kernel));
    EXPECT_FALSE(fails(small).empty());
    int ops = 0;
    ir::walk(small.kernel, small.kernel.body(),
             [&](ir::OpId o) { ops += small.kernel[o].opcode != ir::Opcode::Const; });
    EXPECT_LE(ops, 16);  // 12 with GCC; the draws depend on the compiler's order of evaluation
    EXPECT_LE(small.args.size(), p.args.size());
    // The printed text reads back.
    const std::string text = file_test(small, fails(small));
    EXPECT_EQ(ir::print(ir::parse(text)), ir::print(small.kernel));
    EXPECT_NE(text.find("; run: eval "), std::string::npos);
  }
  EXPECT_EQ(reduced, 6);
}

}  // namespace
}  // namespace tegula::fuzz::reduce_program_test
