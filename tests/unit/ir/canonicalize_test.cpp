// Rewrites of canonicalize that are chosen for the code they give.
#include <gtest/gtest.h>

#include "ir/pipeline.h"
#include "ir/text.h"

namespace tegula::ir::canonicalize_test {
namespace {

std::string canonical_text(const std::string& body) {
  Kernel k = parse(
      "kernel @k simt target(sm_90a) threads(128) (%p: ptr<bf16> [arg = 0, component = \"ptr\"], "
      "%n: i32 [arg = 1]) {\n" +
          body + "}\n",
      "k");
  PassContext context;
  find_pass(ir_passes(), "canonicalize")->run(k, context);
  return print(k);
}

/// Eight numbers, and the four pairs of a condition.
constexpr const char* kOperands = R"(
  %t = tid
  %x = cast %t : f32
  %v = concat %x, %x, %x, %x : v<4xf32>
  %c = cmp %t, %n [pred = "lt"] : i1
  %m = concat %c, %c, %c, %c : v<4xi1>
)";
constexpr const char* kStore = "  st_global %p, %s [width = 4]\n";

TEST(Canonicalize, SelectsBeforeItNarrows) {
  const std::string text = canonical_text(std::string(kOperands) + R"(
  %b = cast %v : v<4xbf16>
  %zero = const [value = 0.0] : bf16
  %s = select %m, %b, %zero : v<4xbf16>
)" + kStore);
  EXPECT_NE(text.find(": v<4xf32>\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("= select"), text.rfind("= select")) << text;
  EXPECT_LT(text.find("= select"), text.rfind("= cast")) << text;
}

TEST(Canonicalize, MergesTheSelectWithOneOfTheWideElements) {
  const std::string text = canonical_text(std::string(kOperands) + R"(
  %wide = const [value = 0.0] : f32
  %w = select %m, %v, %wide : v<4xf32>
  %q = addptr %p, %t
  %w2 = cast %w : v<4xbf16>
  st_global %q, %w2 [width = 4]
  %b = cast %v : v<4xbf16>
  %zero = const [value = 0.0] : bf16
  %s = select %m, %b, %zero : v<4xbf16>
)" + kStore);
  EXPECT_EQ(text.find("= select"), text.rfind("= select")) << text;
}

TEST(Canonicalize, LeavesAConversionThatIsNotTheUsualOne) {
  const std::string text = canonical_text(std::string(kOperands) + R"(
  %b = cast %v [round = "rz"] : v<4xbf16>
  %zero = const [value = 0.0] : bf16
  %s = select %m, %b, %zero : v<4xbf16>
)" + kStore);
  EXPECT_GT(text.find("= select"), text.rfind("= cast")) << text;
}

}  // namespace
}  // namespace tegula::ir::canonicalize_test
