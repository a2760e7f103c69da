// MMAs that the pass hoist_broadcast_terms starts from terms instead of zeros, and the epilogue
// that remains.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/eval/eval.h"
#include "ir/pipeline.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace tegula::ir::accumulator_init_test {
namespace {

constexpr std::size_t kRows = 2, kColumns = 64;

/// The lines of a kernel; each member replaces one of them.
struct Parts {
  std::string target = "sm_90a", type = "f16";
  std::string sums = "const [value = 0.0] : tile<2x64xf32>";
  std::string scaled = "mul %d, %scale [reassoc = 1] : tile<2x64xf32>";
  std::string fact = "assume %positive";
  std::string columns = "cast %at [reassoc = 1] : tile<1x64xf32>";
  std::string score = "fma %wide, %slope, %scaled [reassoc = 1] : tile<2x64xf32>";
  std::string other = "";  ///< a use of the MMA's result besides the score
};

/// scale * a b + slope * (first + column): its maxima of rows, and what is below them.
std::string text_of(const Parts& p) {
  return fmt::format(R"(
kernel @scores tile target({0}) (%q: view<?x?x{1}, in> [arg = 0], %k: view<?x?x{1}, in> [arg = 1], %scale: f32 [arg = 2], %slope: f32 [arg = 3], %first: i32 [arg = 4], %table: view<?xf32, in> [arg = 5], %top: view<?xf32, out> [arg = 6], %below: view<?x?xf32, out> [arg = 7]) {{
  %zero = const [value = 0] : i32
  %nothing = const [value = 0.0] : f32
  %positive = cmp %scale, %nothing [pred = "gt"] : i1
  {3}
  %a = load_view %q, %zero, %zero [axes = [0, 1]] : tile<2x4x{1}>
  %b = load_view %k, %zero, %zero [axes = [0, 1]] : tile<4x64x{1}>
  %sums = {2}
  %d = dot %a, %b, %sums [label = "dot#0"] : tile<2x64xf32>
  %scaled = {7}
  %range = arange [start = 0] : tile<64xi32>
  %columns = add %range, %first : tile<64xi32>
  %at = expand_dims %columns [axis = 0] : tile<1x64xi32>
  %entries = load_view %table, %zero [axes = [0]] : tile<64xf32>
  %entries1 = expand_dims %entries [axis = 0] : tile<1x64xf32>
  %terms = {4}
  %wide = broadcast %terms : tile<2x64xf32>
  %s = {5}
  {6}
  %most = reduce %s [axis = 1, kind = "max"] : tile<2xf32>
  store_view %top, %most, %zero [axes = [0]]
  %most1 = expand_dims %most [axis = 1] : tile<2x1xf32>
  %wide_most = broadcast %most1 : tile<2x64xf32>
  %e = sub %s, %wide_most [reassoc = 1] : tile<2x64xf32>
  store_view %below, %e, %zero, %zero [axes = [0, 1]]
}})",
                     p.target, p.type, p.sums, p.fact, p.columns, p.score, p.other, p.scaled);
}

struct Result {
  Kernel kernel{""};
  bool begins = false;  ///< its accumulator starts from terms
};
Result narrowed(const Parts& p, std::string_view columns = "64") {
  std::string text = text_of(p);
  for (std::size_t at = 0; (at = text.find("64x", at)) != std::string::npos; ++at)
    text.replace(at, 2, columns);
  Result r{parse(text, "scores")};
  verify_or_throw(r.kernel);
  PassContext context;
  find_pass(ir_passes(), "hoist_broadcast_terms")->run(r.kernel, context);
  verify_or_throw(r.kernel);
  for (const Remark& remark : context.remarks)
    r.begins = r.begins || remark.reason == "an accumulator starts from terms";
  int products = 0;
  walk(r.kernel, r.kernel.body(), [&](OpId op) { products += r.kernel[op].opcode == Opcode::Dot; });
  EXPECT_EQ(products, 1);
  return r;
}

TEST(FirstSums, AreOfColumnsThatRise) {
  EXPECT_TRUE(narrowed({}).begins);
  EXPECT_TRUE(narrowed({.type = "bf16"}).begins);
  EXPECT_TRUE(narrowed({.scaled = "add %d, %scale [reassoc = 1] : tile<2x64xf32>"}).begins);
  EXPECT_TRUE(narrowed({.score = "sub %scaled, %wide [reassoc = 1] : tile<2x64xf32>"}).begins);
}

TEST(FirstSums, AreRejectedUnlessEqual) {
  EXPECT_FALSE(narrowed({.target = "sm_80"}).begins) << "no registers for them";
  EXPECT_FALSE(narrowed({}, "32").begins) << "too little to save";
  EXPECT_FALSE(narrowed({.type = "f8e4m3"}).begins) << "inaccurate sums";
  EXPECT_FALSE(narrowed({.sums = "splat %slope : tile<2x64xf32>"}).begins) << "it has others";
  EXPECT_FALSE(narrowed({.fact = ""}).begins) << "the factor may be 0, and cannot wait";
  EXPECT_FALSE(
      narrowed({.columns = "add %entries1, %entries1 [reassoc = 1] : tile<1x64xf32>"}).begins)
      << "of any magnitude";
  EXPECT_FALSE(narrowed({.score = "fma %wide, %slope, %scaled : tile<2x64xf32>"}).begins)
      << "exact";
  EXPECT_FALSE(narrowed({.other = "store_view %below, %d, %zero, %zero [axes = [0, 1]]"}).begins)
      << "the product itself is needed";
}

/// Far out and with any slope a score is as accurate as its largest terms, and its distance from
/// the row's maximum as accurate as what differs in the tile.
TEST(FirstSums, KeepTheirAccuracyFarOut) {
  const Kernel k = narrowed({}).kernel;
  const std::vector<float> q{0.5f, -1, 2, 0.25f, 1, 1, -0.75f, 3};
  std::vector<float> keys;
  for (std::size_t i = 0; i < 4 * kColumns; ++i)
    keys.push_back(0.125f * (static_cast<float>(i * 7 % 13) - 6));
  const auto halves = [](const std::vector<float>& from) {
    std::vector<std::uint16_t> to;
    for (float f : from)
      to.push_back(static_cast<std::uint16_t>(to_bits(Cell{.f = f}, DType::f16)));
    return to;
  };
  std::vector<std::uint16_t> a = halves(q), b = halves(keys);
  std::vector<float> table(kColumns), top(kRows), below(kRows * kColumns);
  for (const double scale : {0.0884, 1.0, 0.01})
    for (const double slope : {0.5, -0.7, 0.0039, 20.0})
      for (const std::int64_t first : {std::int64_t{0}, std::int64_t{131072}}) {
        const std::vector<EvalArg> args{
            TensorArg{a.data(), {2, 4}, {4, 1}, DType::f16},
            TensorArg{b.data(), {4, kColumns}, {kColumns, 1}, DType::f16},
            Cell{.f = scale},
            Cell{.f = slope},
            Cell{.i = first},
            TensorArg{table.data(), {kColumns}, {1}, DType::f32},
            TensorArg{top.data(), {2}, {1}, DType::f32},
            TensorArg{below.data(), {2, kColumns}, {kColumns, 1}, DType::f32}};
        ASSERT_EQ(evaluate(k, args).str(), "");
        for (std::size_t i = 0; i < kRows; ++i) {
          std::vector<double> s(kColumns);
          for (std::size_t j = 0; j < kColumns; ++j) {
            for (std::size_t d = 0; d < 4; ++d)
              s[j] += q[4 * i + d] * keys[kColumns * d + j] * scale;
            s[j] += slope * static_cast<double>(first + static_cast<std::int64_t>(j));
          }
          const double most = *std::ranges::max_element(s);
          const double far = std::abs(slope) * (static_cast<double>(first) + kColumns) + scale * 10;
          EXPECT_NEAR(top[i], most, far * 0x1p-22) << scale << " " << slope << " " << first;
          for (std::size_t j = 0; j < kColumns; ++j)
            EXPECT_NEAR(below[kColumns * i + j], s[j] - most, far * 0x1p-22)
                << scale << " " << slope << " " << first << " column " << j;
        }
      }
}

}  // namespace
}  // namespace tegula::ir::accumulator_init_test
