// Random kernels of many conditions: interpreter and simulator agree, and the LLVM back end's
// module defines each value before its uses. TEGULA_FUZZ_PROGRAMS and TEGULA_FUZZ_SEED choose
// how many and which.
#include <gtest/gtest.h>

#include "codegen/emit.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "tegula/error.h"
#include "tests/fuzz/llvm_order.h"
#include "tests/fuzz/number_from_env.h"
#include "tests/fuzz/random_conditions.h"

namespace tegula::fuzz::conditions_test {
namespace {

TEST(RandomConditions, InterpreterAndSimulatorAgree) {
  const std::uint64_t first = number_from_env("TEGULA_FUZZ_SEED", 1),
                      count = number_from_env("TEGULA_FUZZ_PROGRAMS", 300);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    RandomConditions p(seed);
    SCOPED_TRACE(testing::Message() << "TEGULA_FUZZ_SEED=" << seed << "\n" << ir::print(p.kernel));
    ir::verify_or_throw(p.kernel);
    Arguments want = p.args, got = p.args;
    ASSERT_EQ(interpret(p.kernel, want), "");
    const sim::Report report =
        simulate(lowered(p.kernel), ir::evaluate_launch(p.kernel, eval_args(got)), got, seed);
    ASSERT_TRUE(report.clean()) << report.str();
    ASSERT_EQ(difference(want, got), "");
  }
}

/// A condition after its first use reads whatever its register holds.
TEST(RandomConditions, AreDefinedBeforeTheyAreUsed) {
  const std::uint64_t first = number_from_env("TEGULA_FUZZ_SEED", 1),
                      count = number_from_env("TEGULA_FUZZ_PROGRAMS", 300);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const RandomConditions p(seed);
    SCOPED_TRACE(testing::Message() << "TEGULA_FUZZ_SEED=" << seed << "\n" << ir::print(p.kernel));
    codegen::Emitted emitted;
    try {
      emitted = codegen::emit_llvm(lowered(p.kernel), {.lineinfo = false, .keep_source = true});
    } catch (const DeviceError& e) {
      GTEST_SKIP() << e.what();
    }
    ASSERT_EQ(used_before_defined(emitted.source), "");
  }
}

TEST(LlvmOrder, FindsAUseBeforeItsDefinition) {
  constexpr std::string_view kRight = R"(
define void @k(i32 %n) {
entry:
  %0 = icmp slt i32 %n, 3
  br label %next
next:
  %i = phi i32 [ 0, %entry ], [ %j, %next ]
  %j = add i32 %i, 1
  %1 = xor i1 %0, true
  br i1 %1, label %next, label %out
out:
  ret void
})";
  EXPECT_EQ(used_before_defined(kRight), "");
  std::string wrong(kRight);
  const std::string line = "  %j = add i32 %i, 1\n";
  wrong.erase(wrong.find(line), line.size());
  wrong.insert(wrong.find("  br i1"), "  %late = add i32 %j, 0\n" + line);
  EXPECT_EQ(used_before_defined(wrong), "  %late = add i32 %j, 0");
}

}  // namespace
}  // namespace tegula::fuzz::conditions_test
