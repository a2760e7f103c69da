// Conditions that became limits of rows keep what they kept: random ones of comparisons with all
// kinds of limits, at the ends of the type too, in the interpreter and lowered, in the simulator.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/fuzz/run_program.h"
#include "tests/replaced.h"

namespace tegula::interval_masks_test {
namespace {

constexpr int kRows = 4, kColumns = 8;

constexpr const char* kText = R"(
kernel @k tile target(sm_90a) (%x: view<?xi32, in> [arg = 0], %y: view<?x?xi32, out> [arg = 1],
                               %row0: i32 [arg = 2], %col0: i32 [arg = 3], %a: i32 [arg = 4], %b: i32 [arg = 5]) {
  launch {
    %single = const [value = 1] : i32
    yield %single, %single, %single
  }
  %zero = const [value = 0] : i32
  %r = arange [start = 0] : tile<4xi32>
  %r1 = add %r, %row0 : tile<4xi32>
  %r2 = expand_dims %r1 [axis = 1] : tile<4x1xi32>
  %rows = broadcast %r2 : tile<4x8xi32>
  %c = arange [start = 0] : tile<8xi32>
  %c1 = add %c, %col0 : tile<8xi32>
  %line = expand_dims %c1 [axis = 0] : tile<1x8xi32>
  %cols = broadcast %line : tile<4x8xi32>
  %l = load_view %x, %zero [axes = [0]] : tile<4xi32>
  %l1 = expand_dims %l [axis = 1] : tile<4x1xi32>
  %loaded = broadcast %l1 : tile<4x8xi32>
  %below = sub %rows, %cols : tile<4x8xi32>
  %above = sub %cols, %rows : tile<4x8xi32>
BODY
  %one = const [value = 1] : tile<4x8xi32>
  %none = const [value = 0] : tile<4x8xi32>
  %kept = select %condition, %one, %none : tile<4x8xi32>
  store_view %y, %kept, %zero, %zero [axes = [0, 1]]
})";

class Dice {
 public:
  explicit Dice(unsigned seed) : engine_(seed) {}
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(engine_); }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }

 private:
  std::mt19937 engine_;
};

/// Ops whose last defines %condition.
std::string random_body(Dice& dice) {
  static const std::vector<std::string> kPreds{"lt", "le", "gt", "ge", "lt", "ge", "eq"},
      kPairs{"%cols, %rows", "%rows, %cols", "%cols, %loaded", "%loaded, %cols",
             "%below, %a",   "%above, %b",   "%a, %below",     "%cols, %a"};
  std::string text;
  std::vector<std::string> conditions;
  const int leaves = 2 + dice.below(3);
  for (int i = 0; i < leaves; ++i) {
    const bool is_line = dice.below(4) == 0;
    const std::string name = "%leaf" + std::to_string(i), pred = dice.one_of(kPreds);
    if (is_line) {
      text += name + "n = cmp %line, %b [pred = \"" + pred + "\"] : tile<1x8xi1>\n";
      text += name + " = broadcast " + name + "n : tile<4x8xi1>\n";
    } else {
      text +=
          name + " = cmp " + dice.one_of(kPairs) + " [pred = \"" + pred + "\"] : tile<4x8xi1>\n";
    }
    conditions.push_back(name);
  }
  for (int i = 0; conditions.size() > 1; ++i) {
    const bool last = conditions.size() == 2;
    const std::string name = last ? "%condition" : "%inner" + std::to_string(i),
                      op = last || dice.below(3) > 0 ? "and" : "or";
    text += name + " = " + op + " " + conditions[0] + ", " + conditions[1] + " : tile<4x8xi1>\n";
    conditions.erase(conditions.begin(), conditions.begin() + 2);
    conditions.push_back(name);
  }
  return text;
}

std::int64_t random_limit(Dice& dice) {
  using Limits = std::numeric_limits<std::int32_t>;
  static const std::vector<std::int64_t> kEnds{Limits::min(), Limits::min() + 1, Limits::max(),
                                               Limits::max() - 1};
  return dice.below(4) == 0 ? dice.one_of(kEnds) : dice.below(40) - 14;
}

fuzz::Argument scalar(std::int64_t value) {
  fuzz::Argument a;
  a.dtype = DType::i32;
  a.scalar = ir::Cell{.i = value};
  return a;
}

fuzz::Argument tensor(ir::Ints dims, const std::vector<std::int64_t>& values) {
  fuzz::Argument a;
  a.dtype = DType::i32;
  a.is_view = true;
  a.strides = dims.size() == 2 ? ir::Ints{dims[1], 1} : ir::Ints{1};
  a.dims = std::move(dims);
  a.bytes.resize(values.size() * 4);
  for (std::size_t i = 0; i < values.size(); ++i)
    a.put(static_cast<std::int64_t>(i), ir::Cell{.i = values[i]});
  return a;
}

fuzz::Arguments random_arguments(Dice& dice) {
  std::vector<std::int64_t> limits;
  for (int i = 0; i < kRows; ++i) limits.push_back(random_limit(dice));
  const std::int64_t far = dice.below(5) == 0 ? std::int64_t{1} << 30 : 0;
  return {tensor({kRows}, limits),
          tensor({kRows, kColumns}, std::vector<std::int64_t>(kRows * kColumns, 77)),
          scalar(far + dice.below(12)),
          scalar(dice.below(12)),
          scalar(random_limit(dice)),
          scalar(random_limit(dice))};
}

int comparisons(const ir::Kernel& k) {
  int n = 0;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    n += k[op].opcode == ir::Opcode::Cmp && k.type(k[op].results[0]).count() == kRows * kColumns
             ? 1
             : 0;
  });
  return n;
}

TEST(MasksToRowBounds, PreserveTheMask) {
  const std::span<const ir::Pass> all = ir::ir_passes();
  const auto at = std::ranges::find(all, "masks_to_row_bounds", &ir::Pass::name);
  int rewritten = 0, fewer = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    const ir::Kernel plain = ir::parse(test::replaced(kText, "BODY", random_body(dice)), "k");
    ir::verify_or_throw(plain);
    ir::Kernel limited = ir::clone(plain);
    ir::PassContext context;
    ir::run_pipeline(limited, std::span(&*at, 1), context);
    const bool changed = ir::print(limited) != ir::print(plain);
    rewritten += changed;
    fewer += comparisons(limited) < comparisons(plain);
    for (int i = 0; changed && i < 20; ++i) {
      fuzz::Arguments want = random_arguments(dice), got = want, lowered = want;
      ASSERT_EQ(fuzz::interpret(plain, want), "");
      ASSERT_EQ(fuzz::interpret(limited, got), "");
      ASSERT_EQ(fuzz::difference(want, got), "") << ir::print(plain) << ir::print(limited);
      if (i > 0) continue;
      const sim::Report report = fuzz::simulate(fuzz::lowered(plain), {1, 1, 1}, lowered);
      EXPECT_TRUE(report.clean()) << report.str();
      ASSERT_EQ(fuzz::difference(want, lowered), "");
    }
  }
  EXPECT_GT(rewritten, 150);
  EXPECT_GT(fewer, 100);
}

}  // namespace
}  // namespace tegula::interval_masks_test
