// The emitter as a whole: the hand-written Hopper kernels, line information, errors, determinism,
// and all conversions.
#include <fmt/format.h>

#include "tegula/error.h"
#include "tests/unit/llvm/emit_testing.h"

namespace tegula {
namespace {

using codegen::EmitOptions;
using codegen::Emitted;
using testing::count;
using testing::kernel_of;
using testing::ptx_of;

constexpr std::string_view kCopy = R"(
kernel @copy simt target(sm_90a) threads(128) (%p: ptr<f32> [arg = 0, part = "ptr"], %q: ptr<f32> [arg = 1, part = "ptr"]) {
  %tid = tid loc("user.cpp":10:3)
  %a = addptr %p, %tid loc("user.cpp":11:5)
  %x = ld_global %a [width = 1] : f32 loc("user.cpp":11:9)
  %b = addptr %q, %tid loc("user.cpp":12:5)
  st_global %b, %x [width = 1] loc("user.cpp":12:9)
})";

class HandWritten : public ::testing::TestWithParam<const char*> {};

TEST_P(HandWritten, HopperKernelAssemblesWithoutSpillsOrSerialisation) {
  const ir::Kernel k = kernel_of(
      read_file(fmt::format("{}/tests/filetests/g0/{}.tir", TEGULA_SOURCE_DIR, GetParam())));
  const std::string ptx = codegen::emit_llvm(k).ptx;
  EXPECT_EQ(count(ptx, ".local"), 0);
  if (testing::find_ptxas().empty()) GTEST_SKIP() << "no ptxas on this machine";
  const testing::Assembled a = testing::assemble(ptx, "sm_90a");
  EXPECT_TRUE(a.is_clean()) << a.log;
  EXPECT_EQ(count(a.log, "Used 168 registers"), 1) << a.log;
}

INSTANTIATE_TEST_SUITE_P(G0, HandWritten, ::testing::Values("gemm", "attention"));

TEST(EmitLlvm, IsDeterministic) { EXPECT_EQ(ptx_of(kCopy), ptx_of(kCopy)); }

TEST(EmitLlvm, ReportsItsTimesAndKeepsTheSourceOnlyWhenAsked) {
  const Emitted bare = codegen::emit_llvm(kernel_of(kCopy));
  EXPECT_TRUE(bare.source.empty());
  EXPECT_GT(bare.build_ms, 0);
  EXPECT_GT(bare.optimize_ms, 0);
  EXPECT_GT(bare.codegen_ms, 0);
  EmitOptions options;
  options.keep_source = true;
  EXPECT_EQ(count(codegen::emit_llvm(kernel_of(kCopy), options).source, "define void @copy"), 1);
}

TEST(EmitLlvm, LineTablesNameTheUsersSource) {
  EXPECT_EQ(count(ptx_of(kCopy), ".loc"), 0);
  EmitOptions options;
  options.lineinfo = true;
  const std::string ptx = codegen::emit_llvm(kernel_of(kCopy), options).ptx;
  EXPECT_EQ(count(ptx, "user.cpp"), 1);
  EXPECT_GE(count(ptx, ".loc"), 2);
  EXPECT_EQ(count(ptx, ", debug"), 0) << "a debug target would disable optimisation";
  testing::expect_clean(ptx, "sm_90a", "line tables");
}

TEST(EmitLlvm, LineTablesLeaveSetmaxnregInForce) {
  EmitOptions options;
  options.lineinfo = true;
  const ir::Kernel k = kernel_of(read_file(TEGULA_SOURCE_DIR "/tests/filetests/g0/gemm.tir"));
  testing::expect_clean(codegen::emit_llvm(k, options).ptx, "sm_90a", "gemm with line tables");
}

TEST(EmitLlvm, RefusesWhatIsNotSimtFormAsAnInternalErrorNamingIt) {
  const ir::Kernel tile("t", ir::Form::Tile);
  try {
    codegen::emit_llvm(tile);
    FAIL() << "a tile kernel was emitted";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string_view(e.what()).find("kernel t is not in simt form"),
              std::string_view::npos)
        << e.what();
  }
}

TEST(EmitLlvm, RefusesAnInstructionTheHardwareLacksNamingTheOp) {
  try {
    ptx_of(R"(
kernel @k simt target(sm_90a) threads(32) (%p: ptr<f64> [arg = 0, part = "ptr"]) {
  %x = ld_global %p [width = 1] : f64
  %y = exp2 %x
  st_global %p, %y [width = 1]
})");
    FAIL() << "exp2 of f64 was emitted";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string_view(e.what()).find("exp2"), std::string_view::npos) << e.what();
  }
}

TEST(EmitLlvm, RefusesWrongInlineAsmConstraints) {
  EXPECT_THROW(ptx_of(R"(
kernel @k simt target(sm_90a) threads(32) (%p: ptr<i32> [arg = 0, part = "ptr"]) {
  %x = asm [text = "mov.u32 $0, 1;", constraints = "=r,r"] : i32
  st_global %p, %x [width = 1]
})"),
               InternalError);
}

TEST(EmitLlvm, ConvertsEveryTypeIntoEveryOther) {
  for (const auto& [target, round, sat] : {std::tuple{"sm_90a", "rn", 0},
                                           {"sm_80", "rn", 0},
                                           {"sm_90a", "rz", 0},
                                           {"sm_90a", "rn", 1}}) {
    const bool f8 = std::string_view(target) == "sm_90a" && std::string_view(round) == "rn";
    std::string params, body;
    for (const DTypeInfo& from : kDTypeInfo) {
      params += fmt::format("{}%p_{}: ptr<{}>", params.empty() ? "" : ", ", from.name, from.name);
      if (is_float(from.dtype) && from.bits == 8 && !f8) continue;
      body += fmt::format("  %x_{0} = ld_global %p_{0} [width = 1] : {0}\n", from.name);
      body += fmt::format("  %v_{0} = concat %x_{0}, %x_{0}, %x_{0}, %x_{0}\n", from.name);
    }
    for (const DTypeInfo& from : kDTypeInfo)
      for (const DTypeInfo& to : kDTypeInfo) {
        const auto is_f8 = [](const DTypeInfo& d) { return is_float(d.dtype) && d.bits == 8; };
        if (!f8 && (is_f8(from) || is_f8(to))) continue;
        const std::string mode = fmt::format("[round = \"{}\", sat = {}]", round, sat);
        const std::string id = fmt::format("{}_{}", from.name, to.name);
        body += fmt::format(
            "  %s_{2} = cast %x_{0} {3} : {1}\n  st_global %p_{1}, %s_{2} [width = 1]\n", from.name,
            to.name, id, mode);
        body += fmt::format(
            "  %w_{2} = cast %v_{0} {3} : v<4x{1}>\n  %e_{2} = regs %w_{2} [indices = [3]]\n"
            "  st_global %p_{1}, %e_{2} [width = 1]\n",
            from.name, to.name, id, mode);
      }
    const std::string text = fmt::format(
        "kernel @casts simt target({}) threads(32) ({}) {{\n{}}}\n", target, params, body);
    testing::expect_clean(ptx_of(text), target,
                          fmt::format("casts {} {} sat = {}", target, round, sat));
  }
}

}  // namespace
}  // namespace tegula
