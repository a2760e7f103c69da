// ptxas up to 13.3 forgets the minus of `b` in max(max(a, -b), c) on Hopper (see ptx::int_neg).
// Where it does, a kernel with the minus is the one without it, instruction by instruction. Needs
// ptxas.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ir/pipeline.h"
#include "ir/text.h"
#include "runtime/doctor.h"
#include "runtime/jit_verbs.h"

namespace tegula {
namespace ir {
bool canonicalize(Kernel&, PassContext&);
}
namespace {

/// Three numbers, of which `lines` make %n of %b: the outermost two of a, n and c, by `op`.
std::vector<char> cubin(std::string_view op, std::string_view type, std::string_view lines,
                        runtime::Backend backend) {
  const std::string text = fmt::format(R"(
kernel @outermost simt target(sm_90a) threads(32) (%p: ptr<{1}> [arg = 0, component = "ptr", divisibility = 16]) {{
  %at = tid : i32
  %pa = addptr %p, %at : ptr<{1}>
  %pb = addptr %pa, %at : ptr<{1}>
  %pc = addptr %pb, %at : ptr<{1}>
  %a = ld_global %pa [width = 1] : {1}
  %b = ld_global %pb [width = 1] : {1}
  %c = ld_global %pc [width = 1] : {1}
  {2}
  %inner = {0} %a, %n : {1}
  %outer = {0} %inner, %c : {1}
  st_global %pa, %outer [width = 1]
}})",
                                       op, type, lines);
  runtime::CompileRequest request;
  request.target = ir::Target("sm_90a");
  request.backend = backend;
  runtime::Compilation k;
  runtime::key(k, request);
  k.name = "outermost";
  k.simt = ir::parse(text, k.name);
  ir::PassContext context;
  ir::canonicalize(k.simt, context);
  runtime::emit(k, request);
  runtime::assemble(k, request);
  return k.cubin;
}

struct Form {
  const char* type;
  std::string negative, positive;
};

Form constant(std::string_view op, int value) {
  const auto lines = [&](int v) {
    return fmt::format("%z = const [value = {}] : i32\n  %n = {} %b, %z : i32", v, op);
  };
  return {"i32", lines(-value), lines(value)};
}

class Negation : public testing::TestWithParam<runtime::Backend> {
 protected:
  void SetUp() override {
    if (!runtime::find_ptxas()) GTEST_SKIP() << "no ptxas here";
    if (GetParam() == runtime::Backend::Nvrtc && !runtime::diagnose().finding("NVRTC").present)
      GTEST_SKIP() << "no NVRTC here";
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Negation,
                         testing::Values(runtime::Backend::Llvm, runtime::Backend::Nvrtc),
                         [](const auto& i) { return std::string(name(i.param)); });

TEST_P(Negation, OutlivesTheAssembler) {
  const std::string same = "%n = bitcast %b : i32";
  const std::vector<Form> forms{
      {"i32", "%n = neg %b : i32", same},
      {"i32", "%z = const [value = 0] : i32\n  %n = sub %z, %b : i32", same},
      {"i32", "%z = add %b, %at : i32\n  %n = sub %at, %z : i32", same},
      {"i32", "%z = add %b, %at : i32\n  %n = sub %b, %z : i32", "%n = bitcast %at : i32"},
      {"i32", "%w = cast %b : i64\n  %m = neg %w : i64\n  %n = cast %m : i32", same},
      {"i32", "%u = bitcast %b : u32\n  %m = neg %u : u32\n  %n = bitcast %m : i32", same},
      {"i16", "%n = neg %b : i16", "%n = bitcast %b : i16"},
      {"i32", "%z = const [value = -4] : i32\n  %n = mul %z, %b : i32",
       "%z = const [value = 4] : i32\n  %n = mul %z, %b : i32"},
      constant("mul", 1),
      constant("mul", 4),
      constant("div", 1),
      constant("div", 3),
      constant("div", 4),
  };
  for (const Form& f : forms)
    for (const char* op : {"max", "min"})
      EXPECT_NE(cubin(op, f.type, f.negative, GetParam()),
                cubin(op, f.type, f.positive, GetParam()))
          << op << " of " << f.negative;
}

}  // namespace
}  // namespace tegula
