// The text that the CUDA C++ emitter writes: whole kernels against golden files (TEGULA_BLESS=1
// rewrites them), and the rules that keep it right: loop carries, registers taken over, integers
// that wrap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "codegen/cuda/indices.h"
#include "codegen/emit.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "support/text.h"
#include "tegula/error.h"
#include "tests/unit/codegen/f8_kernels.h"

namespace tegula::codegen::cuda_text_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string cuda_of(std::string_view text) {
  const ir::Kernel k = ir::parse(text);
  ir::verify_or_throw(k);
  return emit_cuda(k).source;
}

/// The body of a kernel with these parameters.
std::string body_of(std::string_view parameters, std::string_view ops) {
  const std::string all = cuda_of("kernel @k simt target(sm_90a) threads(128) (" +
                                  std::string(parameters) + ") {\n" + std::string(ops) + "\n}");
  return all.substr(all.find("extern \"C\""));
}

void expect_golden(const std::string& name) {
  const std::filesystem::path folder =
      std::filesystem::path(TEGULA_SOURCE_DIR) / "tests/unit/codegen/cuda_golden";
  const std::string text = cuda_of(read_file(folder / (name + ".tir")));
  const std::filesystem::path golden = folder / (name + ".cu");
  if (const char* bless = std::getenv("TEGULA_BLESS"); bless != nullptr && *bless != '\0')
    write_file(golden, text);
  EXPECT_EQ(text, read_file(golden)) << "TEGULA_BLESS=1 rewrites " << golden;
}

TEST(CudaText, VectorAddReadsLikeAPersonsCode) { expect_golden("vector_add"); }
TEST(CudaText, SoftmaxReadsLikeAPersonsCode) { expect_golden("softmax"); }

/// Values that only packed arithmetic needs are packed themselves, or their conversions would be
/// single ones.
TEST(CudaText, HalvesAreComputedTwoInAWord) {
  const std::string s = cuda_of(
      "kernel @k simt target(sm_90a) threads(32) (%p: ptr<f32>) {\n"
      "  %x = ld_global %p [width = 4] : v<4xf32>\n  %h = cast %x : v<4xf16>\n"
      "  %two = const [value = 2] : f16\n  %y = fma %h, %two, %h\n"
      "  %z = max %y, %h [nan = \"propagate\"]\n  %w = cast %z : v<4xf32>\n"
      "  st_global %p, %w [width = 4]\n}");
  for (const char* text :
       {"cvt.rn.f16x2.f32", "fma.rn.f16x2", "max.NaN.f16x2", "* 0x10001u", "r += 2"})
    EXPECT_THAT(s, HasSubstr(text)) << s;
  EXPECT_THAT(s, Not(HasSubstr("cvt.rn.f16.f32")));
  EXPECT_THAT(body_of("%p: ptr<f16>",
                      "  %x = ld_global %p [width = 1] : f16\n"
                      "  %y = fma %x, %x, %x\n  st_global %p, %y [width = 1]"),
              HasSubstr("fma_f16("));
}

TEST(CudaText, HasNoIncludesAndNamesTheLaunch) {
  const std::string s = cuda_of(
      "kernel @k simt target(sm_90a) threads(96) smem(4096) min_ctas_per_sm(2) (%n: i32) { }");
  EXPECT_THAT(s, Not(HasSubstr("#include")));
  EXPECT_THAT(s,
              HasSubstr("extern \"C\" __global__ void __launch_bounds__(96, 2)\nk_kernel(int n)"));
  EXPECT_THAT(s, HasSubstr("4096 bytes of dynamic shared memory"));
}

TEST(CudaText, Fp8IsRefusedWhereTheTargetCannotConvertIt) {
  for (std::string_view op : test::kConvertsF8) {
    try {
      cuda_of(test::f8_kernel("sm_80", op));
      ADD_FAILURE() << op << " was emitted";
    } catch (const CompileError& e) {
      EXPECT_THAT(e.what(), HasSubstr("of 8-bit floats needs sm_90 or later"));
      EXPECT_THAT(e.what(), HasSubstr(std::string(op.substr(5, 4)))) << "the op is named";
    }
    EXPECT_NO_THROW(cuda_of(test::f8_kernel("sm_90a", op))) << op;
  }
  for (std::string_view op : test::kMovesF8)
    EXPECT_NO_THROW(cuda_of(test::f8_kernel("sm_80", op))) << op;
}

TEST(CudaText, OtherFormsAreRefused) {
  EXPECT_THROW(emit_cuda(ir::Kernel("k", ir::Form::Tile)), InternalError);
}

TEST(CudaText, ParametersKeepTheirNamesUnlessCppForbidsThem) {
  const std::string s = body_of("%rows: i32, %float: i32, %r: i32, %map: tmap", "");
  EXPECT_THAT(
      s,
      HasSubstr("k_kernel(int rows, int float2, int r2, const __grid_constant__ TensorMap map)"));
}

TEST(CudaText, OpsWithoutUsersVanish) {
  const std::string s =
      body_of("%n: i32", "%a = add %n, %n  %b = mul %a, %a  %c = cmp %b, %a [pred = \"lt\"]");
  EXPECT_THAT(s, HasSubstr("{\n}\n"));
}

TEST(CudaText, SignedSumsWrapInUnsignedArithmetic) {
  const std::string s = body_of("%p: ptr<i32>, %a: i32, %b: i32, %u: u32", R"(
    %four = const [value = 4] : i32
    %s = add %a, %b
    %m = mul %s, %four
    %c = cmp %m, %a [pred = "lt"]
    %d = cast %c : i32
    st_global %p, %d
    %t = sub %b, %a
    %h = shr %t, %four
    st_global %p, %h)");
  EXPECT_THAT(s, HasSubstr("int((u32(a) + b) * 4u) < a"));
  EXPECT_THAT(s, HasSubstr("int(u32(b) - a) >> 4"));
}

TEST(CudaText, ComparingUnsignedNeedsNoDetour) {
  const std::string s = body_of("%p: ptr<i32>, %a: i32, %b: i32, %u: u32", R"(
    %s = add %a, %b
    %w = cast %s : u32
    %c = cmp %w, %u [pred = "lt"]
    %back = cast %u : i32
    %t = add %back, %a
    if %c { st_global %p, %t } { })");
  EXPECT_THAT(s, HasSubstr("if (u32(a) + b < u)"));
  EXPECT_THAT(s, HasSubstr("= u + a;"));
}

TEST(CudaText, OneRegisterNeedsNoLoop) {
  const std::string s = body_of("%p: ptr<f32>, %q: ptr<f32>", R"(
    %x = ld_global %p : v<1xf32>
    %y = mul %x, %x
    %z = mul %y, %x
    st_global %p, %y
    st_global %q, %z)");
  EXPECT_THAT(s, HasSubstr("[0] = loaded[0] * loaded[0];"));
  EXPECT_THAT(s, Not(HasSubstr("for (")));
}

TEST(CudaText, DivisionByAVariableIsTheHardwares) {
  const std::string s = body_of("%p: ptr<i32>, %a: i32, %b: i32", R"(
    %seven = const [value = 7] : i32
    %q = div %a, %b
    st_global %p, %q
    %r = rem %a, %seven
    st_global %p, %r)");
  EXPECT_THAT(s, HasSubstr("div_i32(a, b)"));
  EXPECT_THAT(s, HasSubstr("a % 7"));
}

// ---- loops and registers ------------------------------------------------------------------------

constexpr const char* kBounds = "%z = const [value = 0] : i32 %one = const [value = 1] : i32\n";

TEST(CudaText, SwappedCarriesGoThroughATemporary) {
  const std::string s =
      body_of("%p: ptr<i32>, %n: i32, %a: i32, %b: i32", std::string(kBounds) + R"(
    %x, %y = for %z, %n, %one, %a, %b : i32, i32 { (%i: i32, %u: i32, %v: i32)
      yield %v, %u
    }
    st_global %p, %x
    st_global %p, %y)");
  EXPECT_THAT(s, HasSubstr("const int next = t2;\n    t2 = t;\n    t = next;"));
}

TEST(CudaText, ACarryThatOthersReadIsWrittenLast) {
  const std::string s = body_of("%p: ptr<i32>, %n: i32, %a: i32", std::string(kBounds) + R"(
    %x, %y = for %z, %n, %one, %a, %a : i32, i32 { (%i: i32, %u: i32, %v: i32)
      %w = add %u, %one
      %d = add %u, %v
      yield %w, %d
    }
    st_global %p, %y)");
  EXPECT_THAT(s, HasSubstr("total2 = u32(total) + total2;\n    total = total + 1u;"));
}

TEST(CudaText, SumsStayInTheirRegisters) {
  const std::string s = body_of("%p: ptr<f32>, %n: i32", std::string(kBounds) + R"(
    %s0 = const [value = 0.0] : v<4xf32>
    %s = for %z, %n, %one, %s0 : v<4xf32> { (%i: i32, %acc: v<4xf32>)
      %x = ld_global %p [width = 4] : v<4xf32>
      %t = add %acc, %x
      yield %t
    }
    st_global %p, %s [width = 4])");
  EXPECT_THAT(s, HasSubstr("total[r] = total[r] + loaded[r];\n  }\n  st_global_f32x4(p, total);"));
}

TEST(CudaText, RegistersStillReadAreNotOverwritten) {
  const std::string s = body_of("%p: ptr<f32>, %n: i32", std::string(kBounds) + R"(
    %x = ld_global %p [width = 4] : v<4xf32>
    %s = for %z, %n, %one, %x : v<4xf32> { (%i: i32, %acc: v<4xf32>)
      %t = add %acc, %x
      yield %t
    }
    st_global %p, %s [width = 4])");
  EXPECT_THAT(s, HasSubstr("total[r] = loaded[r];"));
  EXPECT_THAT(s, HasSubstr("total[r] = total[r] + loaded[r];"));
}

TEST(CudaText, AReversedCopyDoesNotOverwriteItsSource) {
  const std::string s = body_of("%p: ptr<f32>, %n: i32", std::string(kBounds) + R"(
    %x = ld_global %p [width = 4] : v<4xf32>
    %s = for %z, %n, %one, %x : v<4xf32> { (%i: i32, %acc: v<4xf32>)
      %back = regs %acc [indices = [3, 2, 1, 0]]
      %t = neg %back
      yield %t
    }
    st_global %p, %s [width = 4])");
  EXPECT_THAT(s, HasSubstr("next[r] = -loaded[3 - r];"));
  EXPECT_THAT(s, HasSubstr("loaded[r] = next[r];"));
}

TEST(CudaText, ABranchChangesItsRegistersInPlace) {
  const std::string s = body_of("%p: ptr<f32>, %c: i1, %f: f32", R"(
    %x = ld_global %p [width = 4] : v<4xf32>
    %y = if %c : v<4xf32> { %t = mul %x, %f  yield %t } { yield %x }
    st_global %p, %y [width = 4])");
  EXPECT_THAT(s, HasSubstr("if (c) {\n    #pragma unroll\n    for (int r = 0; r < 4; r++) "
                           "loaded[r] = loaded[r] * f;\n  }\n  st_global_f32x4(p, loaded);"));
}

TEST(CudaText, ValuesReadByTheNextIterationAreNotOverwritten) {
  const std::string s = body_of("%p: ptr<f32>, %n: i32, %f: f32", std::string(kBounds) + R"(
    %x = ld_global %p [width = 4] : v<4xf32>
    for %z, %n, %one { (%i: i32)
      %t = mul %x, %f
      st_global %p, %t [width = 4]
    })");
  EXPECT_THAT(s, HasSubstr("prod[r] = loaded[r] * f;"));
}

TEST(CudaText, ValuesReadOnlyByTheOtherBranchAreOverwritten) {
  const std::string s = body_of("%p: ptr<f32>, %c: i1, %f: f32", R"(
    %x = ld_global %p [width = 4] : v<4xf32>
    %y = if %c : v<4xf32> {
      %t = mul %x, %f
      st_global %p, %t [width = 4]
      yield %t
    } { yield %x }
    st_global %p, %y [width = 4])");
  EXPECT_THAT(s, HasSubstr("loaded[r] = loaded[r] * f;\n    st_global_f32x4(p, loaded);\n  }\n"
                           "  st_global_f32x4(p, loaded);"));
}

TEST(CudaText, LiteralsAreExact) {
  const std::string s = body_of("%p: ptr<f32>", R"(
    %tenth = const [value = 0.1] : f32  st_global %p, %tenth
    %huge = const [value = 1e39] : f32  st_global %p, %huge
    %least = const [value = 1e-45] : f32  st_global %p, %least
    %none = const [value = nan] : f32  st_global %p, %none
    %low = const [value = -inf] : f32  st_global %p, %low)");
  for (const char* literal : {"(p, 0.1f)", "(p, infinity())", "(p, 1e-45f)",
                              "(p, __int_as_float(0x7fc00000))", "(p, -infinity())"})
    EXPECT_THAT(s, HasSubstr(literal));
}

TEST(CudaText, LineInfoNamesTheUsersLineBeforeEachStatement) {
  const ir::Kernel k = ir::parse(R"(kernel @k simt target(sm_90a) threads(32) (%p: ptr<f32>) {
    %x = ld_global %p : f32 loc("dir/user.cpp":7:3)
    st_global %p, %x loc("dir/user.cpp":8:1)
  })");
  const std::string s = emit_cuda(k, {.lineinfo = true, .keep_source = false}).source;
  EXPECT_THAT(s, HasSubstr("#line 7 \"dir/user.cpp\"\n  const float loaded"));
  EXPECT_THAT(s, HasSubstr("#line 8 \"dir/user.cpp\"\n  st_global"));
}

TEST(CudaText, LocationsAreNamedOncePerLine) {
  const std::string s = body_of("%p: ptr<f32>", R"(
    %x = ld_global %p : f32 loc("dir/user.cpp":7:3)
    %y = mul %x, %x loc("dir/user.cpp":7:9)
    st_global %p, %y loc("dir/user.cpp":8:1))");
  EXPECT_THAT(s, HasSubstr("  // user.cpp:7\n  const float loaded"));
  EXPECT_THAT(s, HasSubstr("  // user.cpp:8\n  st_global_f32(p, loaded * loaded);"));
}

TEST(CudaText, RolesAreBranchesOnWarps) {
  const std::string s = cuda_of(R"(kernel @k simt target(sm_90a) threads(128) () {
    roles [warps = [1, 3], names = "load,mma"] { trap } { trap }
  })");
  EXPECT_THAT(s, HasSubstr("if (warp < 1) {  // load"));
  EXPECT_THAT(s, HasSubstr("} else {  // mma"));
}

// ---- register lists -----------------------------------------------------------------------------

std::string pattern(std::vector<std::int64_t> list) { return cuda::index_pattern(list); }

TEST(CudaIndices, ListsBecomeFormulas) {
  EXPECT_EQ(pattern({0, 1, 2, 3}), "r");
  EXPECT_EQ(pattern({4, 5, 6, 7}), "r + 4");
  EXPECT_EQ(pattern({1, 3, 5, 7}), "2 * r + 1");
  EXPECT_EQ(pattern({3, 2, 1, 0}), "3 - r");
  EXPECT_EQ(pattern({0, 0, 1, 1, 0, 0, 1, 1}), "r / 2 % 2");
  EXPECT_EQ(pattern({0, 1, 0, 1}), "r % 2");
  EXPECT_EQ(pattern({5, 5}), "5");
  EXPECT_EQ(pattern({0, 2, 1, 7}), "");
}

TEST(CudaIndices, FormulasTakeFormulas) {
  EXPECT_EQ(cuda::at_index("2 * r + 1", "r"), "2 * r + 1");
  EXPECT_EQ(cuda::at_index("2 * r + 1", "5"), "2 * 5 + 1");
  EXPECT_EQ(cuda::at_index("r / 2 % 2", "2 * r + 1"), "(2 * r + 1) / 2 % 2");
}

}  // namespace
}  // namespace tegula::codegen::cuda_text_test
