// The emitter as a whole: the hand-written Hopper kernels, line information, errors, determinism,
// and all conversions.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "support/env.h"
#include "tegula/error.h"
#include "tests/unit/codegen/f8_kernels.h"
#include "tests/unit/codegen/sat_casts.h"
#include "tests/unit/llvm/elementwise_cases.h"
#include "tests/unit/llvm/emit_testing.h"

namespace tegula::emit_test {
namespace {

using codegen::EmitOptions;
using codegen::Emitted;
using emit_cases::count;
using emit_cases::kernel_of;
using emit_cases::ptx_of;

constexpr std::string_view kCopy = R"(
kernel @copy simt target(sm_90a) threads(128) (%p: ptr<f32> [arg = 0, component = "ptr"], %q: ptr<f32> [arg = 1, component = "ptr"]) {
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
  emit_cases::expect_sound(ptx, "sm_90a", GetParam(), 168);
}

INSTANTIATE_TEST_SUITE_P(G0, HandWritten, ::testing::Values("gemm", "attention"));

/// Indices that differ by constants, taken from another: one difference and its offsets.
TEST(EmitLlvm, TakesConstantsOutOfSumsOfIndices) {
  const std::string ptx = ptx_of(R"(
kernel @sums simt target(sm_90a) threads(128) (%p: ptr<i32> [arg = 0, component = "ptr"], %n: i32 [arg = 1], %m: i32 [arg = 2]) {
  %a = const [value = 8] : i32
  %b = const [value = 16] : i32
  %c = const [value = 24] : i32
  %zero = const [value = 0] : i32
  %offsets = concat %zero, %a, %b, %c : v<4xi32>
  %columns = add %offsets, %n : v<4xi32>
  %distances = sub %m, %columns : v<4xi32>
  st_global %p, %distances [width = 4]
})");
  EXPECT_EQ(count(ptx, "sub.s32"), 1) << ptx;
  for (const char* offset : {"-8;", "-16;", "-24;"}) EXPECT_EQ(count(ptx, offset), 1) << ptx;
}

/// A comparison is before what selects by it, not all comparisons before all selects.
TEST(EmitLlvm, ComparesWhereAConditionIsNeeded) {
  const std::string ptx = ptx_of(R"(
kernel @masked simt target(sm_90a) threads(128) (%p: ptr<i32> [arg = 0, component = "ptr"], %n: i32 [arg = 1], %m: i32 [arg = 2]) {
  %x = ld_global %p [width = 4] : v<4xi32>
  %below = cmp %x, %n [pred = "lt"] : v<4xi1>
  %above = cmp %x, %m [pred = "gt"] : v<4xi1>
  %both = and %below, %above : v<4xi1>
  %kept = select %both, %x, %n : v<4xi32>
  st_global %p, %kept [width = 4]
})");
  EXPECT_EQ(count(ptx, "setp"), 8) << ptx;
  EXPECT_EQ(count(ptx.substr(0, ptx.find("selp")), "setp"), 2) << ptx;
}

/// A condition that two others need, one of which needs the other: it is before both. The
/// emitter verifies the module after its last pass, so that a wrong order throws.
TEST(EmitLlvm, PlacesASharedConditionBeforeItsFirstUse) {
  const std::string ptx = ptx_of(R"(
kernel @shared simt target(sm_90a) threads(128) (%p: ptr<i32> [arg = 0, component = "ptr"], %n: i32 [arg = 1], %m: i32 [arg = 2], %l: i32 [arg = 3]) {
  %true = const [value = 1] : i1
  %x = ld_global %p [width = 1] : i32
  %valid = cmp %x, %n [pred = "ne"] : i1
  %below = cmp %x, %m [pred = "lt"] : i1
  %small = and %valid, %below : i1
  %above = cmp %x, %l [pred = "gt"] : i1
  %candidate = and %valid, %above : i1
  %other = xor %small, %true : i1
  %large = and %candidate, %other : i1
  %inner = select %large, %n, %m : i32
  %outer = select %small, %x, %inner : i32
  st_global %p, %outer [width = 1]
})");
  EXPECT_EQ(count(ptx, "setp"), 3) << ptx;
}

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
  emit_cases::expect_sound(ptx, "sm_90a", "line tables");
}

TEST(EmitLlvm, LineTablesLeaveSetmaxnregInForce) {
  EmitOptions options;
  options.lineinfo = true;
  const ir::Kernel k = kernel_of(read_file(TEGULA_SOURCE_DIR "/tests/filetests/g0/gemm.tir"));
  emit_cases::expect_sound(codegen::emit_llvm(k, options).ptx, "sm_90a", "gemm with line tables");
}

TEST(EmitLlvmDeathTest, NamesThePathItTriedWhereTheLibraryIsMissing) {
  // In a separate process: the library is opened once.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Env elsewhere = env();
        elsewhere.llvm = "/nowhere/libtegula_llvm.so";
        const EnvOverride override(elsewhere);
        try {
          ptx_of(kCopy);
        } catch (const DeviceError& e) {
          std::fputs(e.what(), stderr);
          std::_Exit(3);
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(3), "/nowhere/libtegula_llvm.so.*TEGULA_LLVM");
}

TEST(EmitLlvm, RejectsOpsOutsideTheSimtFormWithAnInternalError) {
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
kernel @k simt target(sm_90a) threads(32) (%p: ptr<f64> [arg = 0, component = "ptr"]) {
  %x = ld_global %p [width = 1] : f64
  %y = exp2 %x
  st_global %p, %y [width = 1]
})");
    FAIL() << "exp2 of f64 was emitted";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string_view(e.what()).find("exp2"), std::string_view::npos) << e.what();
  }
}

TEST(EmitLlvm, RefusesFp8WithTheWordsOfTheOtherEmitterWhereTheTargetCannotConvertIt) {
  for (std::string_view op : test::kConvertsF8) {
    const std::string text = test::f8_kernel("sm_80", op);
    const auto words = [&](auto emit) -> std::string {
      try {
        emit(kernel_of(text), EmitOptions{});
        return "nothing was refused";
      } catch (const CompileError& e) {
        return e.what();
      }
    };
    EXPECT_EQ(words(codegen::emit_llvm), words(codegen::emit_cuda)) << op;
    EXPECT_NE(words(codegen::emit_llvm).find("of 8-bit floats needs sm_90"), std::string::npos)
        << op;
    EXPECT_NO_THROW(ptx_of(test::f8_kernel("sm_90a", op))) << op;
  }
  for (std::string_view op : test::kMovesF8)
    EXPECT_NO_THROW(ptx_of(test::f8_kernel("sm_80", op))) << op;
}

TEST(EmitLlvm, RoundsF64ToFp8Once) {
  std::string ptx = ptx_of(test::f8_kernel("sm_90a", "%y = cast %d : v<2xf8e5m2>"));
  ptx.erase(0, ptx.find("// begin inline asm"));
  const std::string second = ptx.substr(ptx.find("// end inline asm"));
  EXPECT_EQ(test::lacks_f64_to_f8(ptx.substr(0, ptx.size() - second.size())), "") << ptx;
  EXPECT_EQ(test::lacks_f64_to_f8(second), "") << ptx;
}

TEST(EmitLlvm, CastsSaturateWhereSomethingCanOverflowAndOnlyThere) {
  for (const emit_cases::SatCast& c : emit_cases::kSatCasts) {
    const std::string ptx = ptx_of(emit_cases::kernel_of(c));
    EXPECT_EQ(emit_cases::has_saturation(ptx), c.saturates) << emit_cases::name_of(c) << "\n"
                                                            << ptx;
    EXPECT_TRUE(c.from != c.to || count(ptx, "cvt.") == 0) << emit_cases::name_of(c) << "\n" << ptx;
  }
}

TEST(EmitLlvm, RefusesWrongInlineAsmConstraints) {
  EXPECT_THROW(ptx_of(R"(
kernel @k simt target(sm_90a) threads(32) (%p: ptr<i32> [arg = 0, component = "ptr"]) {
  %x = asm [text = "mov.u32 $0, 1;", constraints = "=r,r"] : i32
  st_global %p, %x [width = 1]
})"),
               InternalError);
}

class EveryElementwise : public ::testing::TestWithParam<DTypeInfo> {};

TEST_P(EveryElementwise, OpAndConversionAssembles) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    const int arch = std::string_view(target) == "sm_80" ? 80 : 90;
    const DType type = GetParam().dtype;
    if (arch < 90 && emit_cases::is_f8(type)) continue;
    const ir::Kernel k =
        emit_cases::elementwise_kernel(type, emit_cases::CaseList(type, arch).cases, target);
    for (const Diagnostic& d : ir::verify(k)) ADD_FAILURE() << d.str();
    emit_cases::expect_sound(codegen::emit_llvm(k).ptx, target, k.info.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EveryElementwise, ::testing::ValuesIn(kDTypeInfo),
                         [](const auto& info) { return std::string(info.param.name); });

/// The hand-written matmul with setmaxnreg where it has no effect, and without wgmma's fences.
TEST(Assembler, FindsIgnoredRegistersAndSerialisedMmas) {
  if (!runtime::find_ptxas()) GTEST_SKIP() << "no ptxas on this machine";
  std::string ptx = emit_cases::ptx_of(read_file(TEGULA_SOURCE_DIR "/tests/filetests/g0/gemm.tir"));
  const auto report_of = [&](std::vector<std::string> options) {
    return runtime::assemble({.ptx = ptx, .target = "sm_90a", .options = std::move(options)})
        .report;
  };
  EXPECT_TRUE(report_of({}).is_clean()) << report_of({}).defects();
  EXPECT_TRUE(report_of({"-c"}).setmaxnreg_ignored);
  const std::string fence = "wgmma.fence.sync.aligned;";
  ASSERT_NE(ptx.find(fence), ptx.npos);
  for (std::size_t at = ptx.find(fence); at != ptx.npos; at = ptx.find(fence))
    ptx.erase(at, fence.size());
  EXPECT_TRUE(report_of({}).serialised);
}

}  // namespace
}  // namespace tegula::emit_test
