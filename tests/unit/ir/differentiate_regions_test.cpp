// Derivatives of branches, loops and reads, and of ops without derivative, in the text of kernels.
#include <fmt/format.h>

#include <cmath>

#include "ir/differentiate.h"
#include "tegula/error.h"
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::differentiate_regions_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A function of numbers x and z, an integer n and a tensor t; computes %r.
Kernel function(const std::string& body) {
  return parse(
      "kernel @f tile target(sm_90a) (%x: f32 [arg = 0], %z: f32 [arg = 1], "
      "%n: i32 [arg = 2], %t: view<?xf32, in> [arg = 3], "
      "%y: view<?xf32, out> [arg = 4]) {\n"
      "  %i0 = const [value = 0] : i32\n  %i1 = const [value = 1] : i32\n"
      "  %i8 = const [value = 8] : i32\n  %i20 = const [value = 20] : i32\n"
      "  %zero = const [value = 0.0] : f32\n  %one = const [value = 1.0] : f32\n" +
          body + "  store_view %y, %r, %i0 [axes = []]\n}\n",
      "f");
}

struct Differentiated {
  Kernel kernel;
  std::vector<LoadAdjoint> loads;

  /// Stores the result, and the derivatives by x and z.
  explicit Differentiated(const std::string& body, bool with_reads = false)
      : kernel(function(body)) {
    const OpId store = ops_where(kernel, kernel.body(), [&](OpId op) {
                         return kernel[op].opcode == Opcode::StoreView;
                       }).back();
    Builder b(kernel, store);
    const Value y = kernel[store].operands[1], x[] = {param(0), param(1)}, reads[] = {param(3)};
    const ValueAdjoints found = differentiate(
        b, y, b.f32(1), x, with_reads ? std::span<const Value>(reads) : std::span<const Value>());
    loads = found.loads;
    for (int i = 0; i < 2; ++i) {
      const auto at = found.of.find(x[i]);
      b.effect(Opcode::StoreView,
               {param(4), at == found.of.end() ? b.f32(0) : at->second, b.i32(i + 1)},
               {{AttrName::axes, Ints{}}});
    }
    verify_or_throw(kernel);
  }
  Value param(std::size_t i) const { return kernel.params()[i].value; }

  std::vector<float> at(double x, double z = 0, std::int64_t n = 0) {
    HostTensor<f32> t({4}, {2, 3, 5, 7}), y({3});
    const EvalArg args[] = {float_arg(x), float_arg(z), int_arg(n), t.view(), y.view()};
    const EvalReport report = evaluate(kernel, args);
    EXPECT_TRUE(report.clean()) << report.str();
    return y.storage;
  }
};

constexpr const char* kBranch = R"(
  %p = cmp %x, %zero [pred = "gt"]
  %r = if %p : f32 {
    %s = sqrt %x
    %m = mul %s, %z
    yield %m
  } {
    %m2 = mul %z, %z
    yield %m2
  }
)";

TEST(DifferentiateRegions, ABranchOnlyTheSideThatRuns) {
  Differentiated f(kBranch);
  EXPECT_THAT(f.at(4, 3), ElementsAre(6, 0.75f, 2));
  EXPECT_THAT(f.at(0, 3), ElementsAre(9, 0, 6));
  EXPECT_THAT(f.at(-1, 3), ElementsAre(9, 0, 6));
}

TEST(DifferentiateRegions, ValuesExcludedByASelectDoNotReachTheResult) {
  Differentiated f(std::string(kBranch).replace(std::string(kBranch).find("%r ="), 4, "%s2 =") + R"(
  %q = cmp %x, %one [pred = "gt"]
  %i2 = const [value = 2] : i32
  %power = for %i0, %i2, %i1, %s2 : f32 { (%i: i32, %c: f32)
    %d2 = mul %c, %c
    %e = sqrt %d2
    yield %e
  }
  %sum = for %i0, %i20, %i1, %power : f32 { (%j: i32, %k: f32)
    %root = rsqrt %x
    %d = add %k, %root
    yield %d
  }
  %r = select %q, %sum, %z
)");
  EXPECT_THAT(f.at(0, 0), ElementsAre(0, 0, 1));
  EXPECT_THAT(f.at(4, 3), ElementsAre(16, 0.75f - 1.25f, 2));
}

TEST(DifferentiateRegions, ABranchThatYieldsTheVariableItself) {
  Differentiated f(R"(
  %p = cmp %x, %zero [pred = "gt"]
  %a, %b = if %p : f32, f32 { yield %x, %z } { %c = add %x, %x  yield %c, %one }
  %r = mul %a, %b
)");
  EXPECT_THAT(f.at(4, 3), ElementsAre(12, 3, 4));
  EXPECT_THAT(f.at(-4, 3), ElementsAre(-8, 2, 0));
}

TEST(DifferentiateRegions, AShortLoopEachIteration) {
  // ((z x + 0) x + 1) x + 2
  Differentiated f(R"(
  %i3 = const [value = 3] : i32
  %r = for %i0, %i3, %i1, %z : f32 { (%i: i32, %c: f32)
    %f = cast %i : f32
    %next = fma %c, %x, %f
    yield %next
  }
)");
  EXPECT_THAT(f.at(2, 5), ElementsAre(44, 61, 8));
}

TEST(DifferentiateRegions, ALoopWithoutIterations) {
  Differentiated f(R"(
  %r = for %i1, %i0, %i1, %z : f32 { (%i: i32, %c: f32)  %d = mul %c, %x  yield %d }
)");
  EXPECT_THAT(f.at(2, 5), ElementsAre(5, 0, 1));
}

/// The sum of x^2 i over n iterations, from z; nothing uses a second carry.
constexpr const char* kSum = R"(
  %r, %count = for %i0, %n, %i1, %z, %zero : f32, f32 { (%i: i32, %c: f32, %k: f32)
    %square = mul %x, %x
    %number = cast %i : f32
    %term = mul %square, %number
    %sum = add %term, %c
    %next = add %k, %sum
    yield %sum, %next
  }
)";

TEST(DifferentiateRegions, ASumOfAnyLength) {
  Differentiated f(kSum);
  EXPECT_THAT(f.at(3, 5, 4), ElementsAre(5 + 9 * 6, 36, 1));
  EXPECT_THAT(f.at(3, 5, 0), ElementsAre(5, 0, 1));
  Differentiated g(R"(
  %s = for %i0, %i20, %i1, %x : f32 { (%i: i32, %c: f32)
    %e = mul %z, %x
    %next = sub %c, %e
    yield %next
  }
  %r = mul %s, %s
)");
  EXPECT_THAT(g.at(2, 1), ElementsAre(38 * 38, 2 * -38 * (1 - 20), 2 * -38 * -40));
}

TEST(DifferentiateRegions, ABranchInALoopInABranch) {
  Differentiated f(R"(
  %p = cmp %z, %zero [pred = "gt"]
  %r = if %p : f32 {
    %s = for %i0, %i20, %i1, %zero : f32 { (%i: i32, %c: f32)
      %f = cast %i : f32
      %is = cmp %f, %x [pred = "lt"]
      %term = if %is : f32 { %m = mul %z, %x  yield %m } { yield %zero }
      %next = add %c, %term
      yield %next
    }
    yield %s
  } { yield %x }
)");
  EXPECT_THAT(f.at(2.5, 4), ElementsAre(30, 12, 7.5f));
  EXPECT_THAT(f.at(2.5, -4), ElementsAre(2.5f, 1, 0));
}

TEST(DifferentiateRegions, ReadsHaveAdjoints) {
  Differentiated f(R"(
  %a = load_view %t, %n [axes = []] : f32
  %b = load_view %t, %i1 [axes = []] : f32
  %ab = mul %a, %b
  %r = mul %ab, %x
)",
                   true);
  ASSERT_EQ(f.loads.size(), 2U);
  for (const LoadAdjoint& l : f.loads) {
    EXPECT_EQ(l.param, f.param(3));
    EXPECT_EQ(f.kernel[l.load].opcode, Opcode::LoadView);
  }
  EXPECT_THAT(f.at(10, 0, 2), ElementsAre(150, 15, 0));
  // Without the request there is none, and an unrolled loop has one for each iteration.
  EXPECT_TRUE(Differentiated("  %r = load_view %t, %n [axes = []] : f32\n").loads.empty());
  constexpr const char* kLoop = R"(
  %i3 = const [value = 3] : i32
  %r = for %i0, %i3, %i1, %x : f32 { (%i: i32, %c: f32)
    %a = load_view %t, %i [axes = []] : f32
    %next = mul %c, %a
    yield %next
  }
)";
  EXPECT_EQ(Differentiated(kLoop, true).loads.size(), 3U);
}

std::string refusal_of(const std::string& body, bool with_reads = false) {
  try {
    Differentiated f(body, with_reads);
  } catch (const CompileError& e) {
    EXPECT_EQ(e.diagnostic().code, "T1022");
    EXPECT_THAT(e.diagnostic().hint, HasSubstr("with_gradient"));
    return e.diagnostic().message;
  }
  return "none";
}

TEST(DifferentiateRegions, RejectsOpsWithoutADerivative) {
  EXPECT_THAT(refusal_of("  %b = bitcast %x : i32\n  %c = add %b, %i1\n  %r = bitcast %c : f32\n"),
              HasSubstr("`bitcast` has no derivative"));
  EXPECT_THAT(refusal_of("  %b = bitcast %x : i32\n  %r = cast %b : f32\n"),
              HasSubstr("made from bits"));
  EXPECT_THAT(refusal_of(R"(
  %r = while %x : f32 { (%a: f32)  %go = cmp %a, %one [pred = "gt"]  yield %go } { (%b: f32)
    %h = mul %b, %z
    yield %h
  }
)"),
              HasSubstr("`while` has no derivative"));
  EXPECT_THAT(refusal_of(R"(
  %r = for %i0, %n, %i1, %z : f32 { (%i: i32, %c: f32)
    %next = mul %c, %x
    yield %next
  }
)"),
              HasSubstr("not a sum"));
  // Both are sums, but the second carry needs the first.
  EXPECT_THAT(refusal_of(R"(
  %a, %r = for %i0, %n, %i1, %z, %z : f32, f32 { (%i: i32, %c: f32, %d: f32)
    %nc = add %c, %x
    %dc = mul %c, %x
    %nd = add %d, %dc
    yield %nc, %nd
  }
)"),
              HasSubstr("not a sum"));
  constexpr const char* kRead = R"(
  %p = cmp %z, %zero [pred = "gt"]
  %r = if %p : f32 { %a = load_view %t, %n [axes = []] : f32  yield %a } { yield %x }
)";
  EXPECT_THAT(refusal_of(kRead, true), HasSubstr("read it before"));
  EXPECT_EQ(refusal_of(kRead), "none");
}

TEST(DifferentiateRegions, AcceptsTheSameWithoutADependence) {
  // Bits that only decide, a loop of numbers that do not depend, a product in a short loop.
  EXPECT_EQ(refusal_of(R"(
  %b = bitcast %x : i32
  %p = cmp %b, %i0 [pred = "lt"]
  %m = neg %x
  %r = select %p, %m, %x
)"),
            "none");
  EXPECT_EQ(refusal_of(R"(
  %w = while %one : f32 { (%a: f32)  %go = cmp %a, %zero [pred = "lt"]  yield %go } { (%b: f32)
    %h = mul %b, %b
    yield %h
  }
  %r = mul %w, %x
)"),
            "none");
  EXPECT_EQ(refusal_of(R"(
  %r = for %i0, %i8, %i1, %z : f32 { (%i: i32, %c: f32)
    %next = mul %c, %x
    yield %next
  }
)"),
            "none");
}

}  // namespace
}  // namespace tegula::ir::differentiate_regions_test
