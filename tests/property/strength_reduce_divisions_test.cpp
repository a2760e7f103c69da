// Divisions that became multiplications give what divisions give: every divisor that is special,
// dividends around its multiples and at the ends of the type, in the interpreter and lowered, in
// the simulator. Divisors that are min(x, 8) become branches, whatever x and the dividend are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "ir/text.h"
#include "ir/verify.h"
#include "tests/fuzz/run_program.h"
#include "tests/replaced.h"

namespace tegula::strength_reduce_divisions_test {
namespace {

/// The dividends are kept from being negative by a maximum, of u32 are what they are.
constexpr const char* kText = R"(
kernel @k tile target(sm_90a) (%x: view<?xELEM, in> [arg = 0], %q: view<?xELEM, out> [arg = 1],
                               %r: view<?xELEM, out> [arg = 2], %given: ELEM [arg = 3]) {
  launch {
    %single = const [value = 1] : i32
    yield %single, %single, %single
  }
  %zero = const [value = 0] : i32
  %one = const [value = 1] : i32
  %none = const [value = 0] : ELEM
  %d = max %given, %none
  %n = view_dim %x [axis = 0] : i32
  for %zero, %n, %one { (%i: i32)
    %some = load_view %x, %i [axes = []] : ELEM
    %a = max %some, %none
    %quotient = div %a, %d
    %rest = rem %a, %d
    store_view %q, %quotient, %i [axes = []]
    store_view %r, %rest, %i [axes = []]
    yield
  }
})";

constexpr const char* kMostlyEight = R"(
kernel @k tile target(sm_90a) (%x: view<?xELEM, in> [arg = 0], %by: view<?xELEM, in> [arg = 1],
                               %q: view<?xELEM, out> [arg = 2], %r: view<?xELEM, out> [arg = 3]) {
  launch {
    %single = const [value = 1] : i32
    yield %single, %single, %single
  }
  %zero = const [value = 0] : i32
  %one = const [value = 1] : i32
  %eight = const [value = 8] : ELEM
  %n = view_dim %x [axis = 0] : i32
  for %zero, %n, %one { (%i: i32)
    %a = load_view %x, %i [axes = []] : ELEM
    %rows = load_view %by, %i [axes = []] : ELEM
    %d = min %rows, %eight
    %quotient = div %a, %d
    %rest = rem %a, %d
    store_view %q, %quotient, %i [axes = []]
    store_view %r, %rest, %i [axes = []]
    yield
  }
})";

fuzz::Argument column(DType dtype, const std::vector<std::int64_t>& values) {
  fuzz::Argument a;
  a.dtype = dtype;
  a.is_view = true;
  a.dims = {static_cast<std::int64_t>(values.size())};
  a.strides = {1};
  a.bytes.resize(values.size() * 4);
  for (std::size_t i = 0; i < values.size(); ++i)
    a.put(static_cast<std::int64_t>(i), ir::Cell{.i = values[i]});
  return a;
}

std::vector<std::int64_t> dividends(std::int64_t d, std::int64_t largest) {
  std::set<std::int64_t> all;
  const auto around = [&](std::int64_t at) {
    for (std::int64_t n = at - 2; n <= at + 2; ++n)
      if (n >= 0 && n <= largest) all.insert(n);
  };
  const std::int64_t last = largest / d;
  for (std::int64_t multiple : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{3},
                                std::int64_t{41}, last / 3, last / 2, last - 1, last})
    around(multiple * d);
  around(largest);
  for (int bits = 8; bits < 32; bits += 8) around(std::int64_t{1} << bits);
  return {all.begin(), all.end()};
}

int count(const ir::Kernel& k, ir::Opcode opcode) {
  int n = 0;
  ir::walk(k, k.body(), [&](ir::OpId op) { n += k[op].opcode == opcode ? 1 : 0; });
  return n;
}

/// Machine form with the divisions rewritten.
ir::Kernel rewritten(const ir::Kernel& tile) {
  ir::Kernel k = ir::clone(tile);
  ir::PassContext context;
  const std::span<const ir::Pass> all = ir::ir_passes();
  const auto end = std::ranges::find(all, "strength_reduce_divisions", &ir::Pass::name);
  ir::run_pipeline(k, all.first(static_cast<std::size_t>(end - all.begin()) + 1), context);
  return k;
}

class StrengthReduceDivisions : public ::testing::TestWithParam<DType> {
 protected:
  std::int64_t largest() const {
    return GetParam() == DType::i32 ? (std::int64_t{1} << 31) - 1 : (std::int64_t{1} << 32) - 1;
  }
  static fuzz::Arguments arguments(const std::vector<std::int64_t>& n, std::int64_t d) {
    const std::vector<std::int64_t> unset(n.size(), 77);
    fuzz::Argument by;
    by.dtype = GetParam();
    by.scalar = ir::Cell{.i = d};
    return {column(GetParam(), n), column(GetParam(), unset), column(GetParam(), unset), by};
  }
  static ir::Kernel tile(std::string text = kText) {
    while (text.find("ELEM") != text.npos) text = test::replaced(text, "ELEM", name(GetParam()));
    ir::Kernel k = ir::parse(text, "k");
    ir::verify_or_throw(k);
    return k;
  }
};

TEST_P(StrengthReduceDivisions, AreExact) {
  const ir::Kernel plain = tile(), machine = rewritten(plain), simt = fuzz::lowered(plain);
  for (const ir::Kernel* k : {&machine, &simt}) {
    EXPECT_EQ(count(*k, ir::Opcode::MulHi), 1) << ir::print(*k);
    EXPECT_EQ(count(*k, ir::Opcode::Div), 1) << "that of the reciprocal\n" << ir::print(*k);
    EXPECT_EQ(count(*k, ir::Opcode::Rem), 0);
  }
  const std::int64_t k2 = std::int64_t{1} << 16, k3 = std::int64_t{1} << 31;
  for (std::int64_t d : {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, std::int64_t{7},
                         std::int64_t{641}, k2 - 1, k2, k2 + 1, k3 / 2 + 1, k3 - 2, k3 - 1}) {
    SCOPED_TRACE(d);
    const std::vector<std::int64_t> n = dividends(d, largest());
    std::vector<std::int64_t> quotients, rests;
    for (std::int64_t a : n) {
      quotients.push_back(a / d);
      rests.push_back(a % d);
    }
    fuzz::Arguments want = arguments(n, d), by_eval = want, by_sim = want;
    want[1] = column(GetParam(), quotients);
    want[2] = column(GetParam(), rests);
    EXPECT_EQ(fuzz::interpret(machine, by_eval), "");
    EXPECT_EQ(fuzz::difference(want, by_eval), "");
    const sim::Report report = fuzz::simulate(simt, {1, 1, 1}, by_sim);
    EXPECT_TRUE(report.clean()) << report.str();
    EXPECT_EQ(fuzz::difference(want, by_sim), "");
  }
}

TEST_P(StrengthReduceDivisions, ByMinimaAreBranches) {
  const ir::Kernel plain = tile(kMostlyEight), machine = rewritten(plain),
                   simt = fuzz::lowered(plain);
  for (const ir::Kernel* k : {&machine, &simt}) {
    EXPECT_EQ(count(*k, ir::Opcode::If), 1) << ir::print(*k);
    EXPECT_EQ(count(*k, ir::Opcode::Div), 2) << ir::print(*k);
  }
  std::vector<std::int64_t> n, by, quotients, rests;
  for (const std::int64_t a : dividends(8, largest()))
    for (const std::int64_t sign : {1, -1})
      for (std::int64_t d = -3; d <= 12; ++d) {
        if (d == 0 || (GetParam() == DType::u32 && (d < 0 || sign < 0))) continue;
        n.push_back(sign * a);
        by.push_back(d);
        quotients.push_back(n.back() / std::min<std::int64_t>(d, 8));
        rests.push_back(n.back() % std::min<std::int64_t>(d, 8));
      }
  const std::vector<std::int64_t> unset(n.size(), 77);
  const DType t = GetParam();
  const fuzz::Arguments want{column(t, n), column(t, by), column(t, quotients), column(t, rests)};
  fuzz::Arguments by_eval{want[0], want[1], column(t, unset), column(t, unset)}, by_sim = by_eval;
  EXPECT_EQ(fuzz::interpret(machine, by_eval), "");
  EXPECT_EQ(fuzz::difference(want, by_eval), "");
  const sim::Report report = fuzz::simulate(simt, {1, 1, 1}, by_sim);
  EXPECT_TRUE(report.clean()) << report.str();
  EXPECT_EQ(fuzz::difference(want, by_sim), "");
}

/// Found where somebody looks at it, as without the pass.
TEST_P(StrengthReduceDivisions, ByZeroAreReported) {
  const ir::Kernel plain = tile(), machine = rewritten(plain);
  fuzz::Arguments args = arguments({5, 6}, 0);
  EXPECT_NE(fuzz::interpret(machine, args).find("integer division by zero"), std::string::npos);
  const sim::Report report = fuzz::simulate(fuzz::lowered(plain), {1, 1, 1}, args);
  EXPECT_FALSE(report.clean());
  // No turn, nobody looks.
  fuzz::Arguments none = arguments({}, 0);
  EXPECT_EQ(fuzz::interpret(machine, none), "");
  EXPECT_TRUE(fuzz::simulate(fuzz::lowered(plain), {1, 1, 1}, none).clean());
}

INSTANTIATE_TEST_SUITE_P(Types, StrengthReduceDivisions, ::testing::Values(DType::i32, DType::u32),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace tegula::strength_reduce_divisions_test
