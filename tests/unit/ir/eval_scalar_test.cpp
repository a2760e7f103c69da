// Results of every elementwise op, computed by hand.
#include <cmath>
#include <limits>
#include <set>

#include "ir/eval/cell.h"
#include "tegula/error.h"
#include "tests/unit/ir/eval_fixture.h"

namespace tegula::ir::eval_scalar_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

AttrList with(AttrName name, AttrValue value) {
  AttrList attrs;
  attrs.set(name, std::move(value));
  return attrs;
}
AttrList with(AttrName name, const char* value) { return with(name, AttrValue(intern(value))); }

struct Case {
  Opcode op;
  DType dtype;  ///< type of the operands
  std::vector<double> in;
  double out;
  DType out_dtype;
  AttrList attrs;
};
Case same(Opcode op, DType dtype, std::vector<double> in, double out, AttrList attrs = {}) {
  return {op, dtype, std::move(in), out, dtype, std::move(attrs)};
}
Case cast(DType from, double in, DType to, double out, AttrList attrs = {}) {
  return {Opcode::Cast, from, {in}, out, to, std::move(attrs)};
}
Case cmp(const char* pred, DType dtype, double a, double b, bool out) {
  return {Opcode::Cmp, dtype, {a, b}, out ? 1.0 : 0.0, DType::i1, with(AttrName::pred, pred)};
}

Cell cell_of(double v, DType dtype) {
  if (is_float(dtype)) return canonical(Cell{.f = v}, dtype);
  if (dtype == DType::u64 && v >= 9223372036854775808.0)
    return Cell{.i = static_cast<std::int64_t>(static_cast<std::uint64_t>(v))};
  return canonical(Cell{.i = static_cast<std::int64_t>(v)}, dtype);
}
double value_of(Cell c, DType dtype) {
  if (is_float(dtype)) return c.f;
  if (dtype == DType::u64) return static_cast<double>(static_cast<std::uint64_t>(c.i));
  return static_cast<double>(c.i);
}

Cell call(const Case& c, std::uint8_t* poison = nullptr) {
  std::vector<Cell> cells;
  std::vector<Elem> elems;
  for (const double v : c.in) {
    const bool is_condition = c.op == Opcode::Select && elems.empty();
    elems.push_back({is_condition ? DType::i1 : c.dtype, false});
    cells.push_back(cell_of(v, elems.back().dtype));
  }
  std::vector<const Cell*> operands;
  for (const Cell& cell : cells) operands.push_back(&cell);
  const std::vector<std::size_t> strides(cells.size(), 0);
  Cell result{.i = 0};
  elementwise_fn(c.op)({.attrs = c.attrs,
                        .in = elems,
                        .out = {c.out_dtype, false},
                        .operands = operands,
                        .strides = strides,
                        .result = &result,
                        .count = 1,
                        .poison = poison});
  return result;
}

using enum DType;

std::vector<Case> arithmetic_cases() {
  return {
      same(Opcode::Add, i8, {127, 1}, -128),
      same(Opcode::Add, u8, {255, 2}, 1),
      same(Opcode::Add, i1, {1, 1}, 0),
      same(Opcode::Add, f32, {1, std::ldexp(1.0, -24)}, 1),  // a tie goes to even
      same(Opcode::Add, f32, {1 + std::ldexp(1.0, -23), std::ldexp(1.0, -24)},
           1 + std::ldexp(1.0, -22)),
      same(Opcode::Add, bf16, {256, 1}, 256),
      same(Opcode::Add, bf16, {258, 1}, 260),
      same(Opcode::Add, f16, {65504, 16}, kInf),
      same(Opcode::Add, f16, {65504, 15}, 65504),
      same(Opcode::Add, f32, {kInf, -kInf}, kNan),
      same(Opcode::Add, f32, {-0.0, -0.0}, -0.0),
      same(Opcode::Sub, u32, {0, 1}, 4294967295.0),
      same(Opcode::Sub, i16, {-32768, 1}, 32767),
      same(Opcode::Sub, f32, {1, 1}, 0.0),
      same(Opcode::Mul, i32, {65536, 65536}, 0),
      same(Opcode::Mul, f32, {1e30, 1e30}, kInf),
      same(Opcode::Mul, f32, {std::ldexp(1.0, -100), std::ldexp(1.0, -49)}, std::ldexp(1.0, -149)),
      same(Opcode::Mul, f8e4m3, {16, 16}, 256),
      same(Opcode::Mul, f8e4m3, {448, 2}, 448),  // fp8 saturates
      same(Opcode::Mul, f8e5m2, {57344, 2}, 57344),
      same(Opcode::Div, i32, {-7, 2}, -3),
      same(Opcode::Div, i32, {-2147483648.0, -1}, -2147483648.0),
      same(Opcode::Div, i64, {-9223372036854775808.0, -1}, -9223372036854775808.0),
      same(Opcode::Div, u8, {200, 3}, 66),
      same(Opcode::Div, u64, {18446744073709549568.0, 2}, 9223372036854774784.0),
      same(Opcode::Div, f32, {1, 3}, static_cast<float>(1.0 / 3.0)),
      same(Opcode::Div, f32, {1, -0.0}, -kInf),
      same(Opcode::Rem, i32, {-7, 2}, -1),
      same(Opcode::Rem, i32, {7, -2}, 1),
      same(Opcode::Rem, i32, {-2147483648.0, -1}, 0),
      same(Opcode::Rem, u16, {65535, 10}, 5),
      same(Opcode::MulHi, i32, {-2147483648.0, 2}, -1),
      same(Opcode::MulHi, u32, {4294967295.0, 4294967295.0}, 4294967294.0),
      same(Opcode::MulHi, i64, {4611686018427387904.0, 4}, 1),
      same(Opcode::MulHi, u8, {255, 255}, 254),
      same(Opcode::Fma, f32, {1 + std::ldexp(1.0, -23), 1 - std::ldexp(1.0, -23), -1},
           -std::ldexp(1.0, -46)),
      same(Opcode::Fma, f64, {3, 4, 5}, 17),
      // Rounded to f32 first, it would be a tie, and the result 1026.
      same(Opcode::Fma, f16, {1 + std::ldexp(1.0, -10), 0.5 - std::ldexp(1.0, -11), 1025}, 1025),
      same(Opcode::Fma, i8, {100, 2, 1}, -55),
      same(Opcode::Neg, i8, {-128}, -128),
      same(Opcode::Neg, f32, {0}, -0.0),
      same(Opcode::Neg, u8, {1}, 255),
      same(Opcode::Abs, i8, {-128}, -128),
      same(Opcode::Abs, i32, {-5}, 5),
      same(Opcode::Abs, f32, {-0.0}, 0.0),
      same(Opcode::Abs, u8, {200}, 200),
  };
}

std::vector<Case> extreme_cases() {
  const AttrList propagate = with(AttrName::nan, "propagate");
  return {
      same(Opcode::Min, i32, {-3, 2}, -3),
      same(Opcode::Min, u64, {18446744073709549568.0, 1}, 1),
      same(Opcode::Min, f32, {kNan, 2}, 2),
      same(Opcode::Min, f32, {2, kNan}, 2),
      same(Opcode::Min, f32, {kNan, kNan}, kNan),
      same(Opcode::Min, f32, {0.0, -0.0}, -0.0),
      same(Opcode::Min, f32, {2, kNan}, kNan, propagate),
      same(Opcode::Max, u64, {18446744073709549568.0, 1}, 18446744073709549568.0),
      same(Opcode::Max, f32, {kNan, -kInf}, -kInf),
      same(Opcode::Max, f32, {-0.0, 0.0}, 0.0),
      same(Opcode::Max, bf16, {3, kNan}, kNan, propagate),
      same(Opcode::Max, i8, {-128, 127}, 127),
      same(Opcode::Select, f32, {1, 5, 7}, 5),
      same(Opcode::Select, f32, {0, 5, 7}, 7),
      cmp("eq", f32, 0.0, -0.0, true),
      cmp("eq", f32, kNan, kNan, false),
      cmp("ne", f32, kNan, kNan, true),
      cmp("lt", f32, kNan, 1, false),
      cmp("ge", f32, kNan, 1, false),
      cmp("lt", i32, -1, 0, true),
      cmp("lt", u32, 4294967295.0, 0, false),
      cmp("gt", u64, 18446744073709549568.0, 1, true),
      cmp("le", i8, 3, 3, true),
      cmp("gt", bf16, 1, 2, false),
  };
}

std::vector<Case> bit_cases() {
  return {
      same(Opcode::And, i32, {12, 10}, 8),
      same(Opcode::And, i1, {1, 0}, 0),
      same(Opcode::Or, u8, {0xf0, 0x0f}, 255),
      same(Opcode::Xor, i8, {-1, 127}, -128),
      same(Opcode::Xor, i1, {1, 1}, 0),
      same(Opcode::Not, i1, {0}, 1),
      same(Opcode::Not, i1, {1}, 0),
      same(Opcode::Not, i32, {0}, -1),
      same(Opcode::Not, u16, {0}, 65535),
      same(Opcode::Shl, i32, {1, 31}, -2147483648.0),
      same(Opcode::Shl, i32, {1, 32}, 0),
      same(Opcode::Shl, i32, {1, -1}, 0),
      same(Opcode::Shl, u8, {255, 4}, 240),
      same(Opcode::Shl, u64, {1, 64}, 0),
      same(Opcode::Shr, i32, {-8, 1}, -4),
      same(Opcode::Shr, i32, {-8, 40}, -1),
      same(Opcode::Shr, i32, {8, 32}, 0),
      same(Opcode::Shr, u32, {4294967295.0, 31}, 1),
      same(Opcode::Shr, u32, {4294967295.0, 32}, 0),
      same(Opcode::Shr, i64, {-1, 64}, -1),
      same(Opcode::Popc, i8, {-1}, 8),
      same(Opcode::Popc, u32, {0x80000001}, 2),
      same(Opcode::Clz, u32, {1}, 31),
      same(Opcode::Clz, i16, {0}, 16),
      same(Opcode::Clz, i8, {-1}, 0),
  };
}

std::vector<Case> math_cases() {
  const double tiny = std::ldexp(1.0, -140);  // a subnormal f32
  const AttrList approx = with(AttrName::approx, AttrValue(std::int64_t{1}));
  return {
      same(Opcode::Exp2, f32, {3}, 8),
      same(Opcode::Exp2, f32, {-140}, 0),  // flushed
      same(Opcode::Exp2, f64, {-140}, tiny),
      same(Opcode::Exp2, f32, {-kInf}, 0),
      same(Opcode::Exp2, f32, {128}, kInf),
      same(Opcode::Exp2, bf16, {0.5}, 1.4140625),
      same(Opcode::Log2, f32, {8}, 3),
      same(Opcode::Log2, f32, {tiny}, -kInf),
      same(Opcode::Log2, f32, {0}, -kInf),
      same(Opcode::Log2, f32, {-1}, kNan),
      same(Opcode::Sqrt, f32, {2}, static_cast<float>(std::sqrt(2.0))),
      same(Opcode::Sqrt, f32, {-0.0}, -0.0),
      same(Opcode::Sqrt, f32, {-1}, kNan),
      same(Opcode::Rsqrt, f32, {4}, 0.5),
      same(Opcode::Rsqrt, f32, {0}, kInf),
      same(Opcode::Rcp, f32, {3}, static_cast<float>(1.0 / 3.0)),
      same(Opcode::Rcp, f32, {-0.0}, -kInf),
      same(Opcode::Rcp, f32, {std::ldexp(1.0, 127)}, std::ldexp(1.0, -127)),
      same(Opcode::Rcp, f32, {std::ldexp(1.0, 127)}, 0, approx),
      same(Opcode::TanhApprox, f32, {kInf}, 1),
      same(Opcode::SinApprox, f32, {0}, 0),
      same(Opcode::SinApprox, f32, {tiny}, 0),
      same(Opcode::CosApprox, f32, {0}, 1),
      same(Opcode::Floor, f32, {-1.5}, -2),
      same(Opcode::Ceil, f32, {-1.5}, -1),
      same(Opcode::Ceil, f32, {-0.5}, -0.0),
      same(Opcode::Round, f32, {2.5}, 2),
      same(Opcode::Round, f32, {3.5}, 4),
      same(Opcode::Round, f16, {-0.5}, -0.0),
      same(Opcode::Trunc, f32, {-1.75}, -1),
      same(Opcode::Exp, f32, {0}, 1),
      same(Opcode::Exp, f32, {1}, static_cast<float>(std::exp(1.0))),
      same(Opcode::Log, f32, {1}, 0),
      same(Opcode::Sin, f32, {1}, static_cast<float>(std::sin(1.0))),
      same(Opcode::Cos, f32, {1}, static_cast<float>(std::cos(1.0))),
      same(Opcode::Tanh, f32, {-kInf}, -1),
      same(Opcode::Erf, f32, {kInf}, 1),
      same(Opcode::WithGradient, f32, {2, 3, 5}, 2),
  };
}

std::vector<Case> cast_cases() {
  const AttrList rz = with(AttrName::round, "rz"),
                 sat = with(AttrName::sat, AttrValue(std::int64_t{1}));
  return {
      cast(f32, 2.9, i32, 2),
      cast(f32, -2.9, i32, -2),
      cast(f32, kNan, i32, 0),
      cast(f32, 3e9, i32, 2147483647),
      cast(f32, -kInf, i8, -128),
      cast(f32, -1, u32, 0),
      cast(f64, 1e30, u64, 18446744073709551615.0),
      cast(f64, 1e30, i64, 9223372036854775807.0),
      cast(f32, 255.9, u8, 255),
      cast(f32, 256, u8, 255),
      cast(f32, kNan, i1, 1),
      cast(f32, -0.0, i1, 0),
      cast(i32, 300, i8, 44),
      cast(i32, 300, i8, 127, sat),
      cast(i32, -5, u8, 0, sat),
      cast(i32, -1, u64, 18446744073709551615.0),
      cast(u32, 4294967295.0, i32, -1),
      cast(i32, 2, i1, 1),
      cast(i1, 1, f32, 1),
      cast(i32, 16777217, f32, 16777216),
      cast(i64, 9007199254740993.0, f64, 9007199254740992.0),
      // Rounded once: 2^24 + 2^16 + 1 is above the midpoint of two bf16; as f32 it would be at it.
      cast(i32, 16777216 + 65536 + 1, bf16, 16777216 + 131072),
      cast(i32, 70000, f16, kInf),
      cast(i32, 70000, f16, 65504, sat),
      cast(f32, 1 + std::ldexp(1.0, -8), bf16, 1),
      cast(f32, 1 + 3 * std::ldexp(1.0, -8), bf16, 1 + std::ldexp(1.0, -6)),
      cast(f32, 1 + 3 * std::ldexp(1.0, -8), bf16, 1 + std::ldexp(1.0, -7), rz),
      cast(f32, -(1 + 3 * std::ldexp(1.0, -8)), bf16, -(1 + std::ldexp(1.0, -7)), rz),
      cast(f32, 1e30, f16, kInf),
      cast(f32, 1e30, f16, 65504, rz),
      cast(f32, -1e30, f16, -65504, sat),
      cast(f32, 1000, f8e4m3, 448),
      cast(f32, kInf, f8e5m2, 57344),
      cast(f32, kNan, f8e4m3, kNan),
      cast(f64, 1e-50, f32, 0),
      cast(bf16, 1.5, f64, 1.5),
  };
}

std::vector<Case> all_cases() {
  std::vector<Case> all;
  for (const auto& part :
       {arithmetic_cases(), extreme_cases(), bit_cases(), math_cases(), cast_cases()})
    all.insert(all.end(), part.begin(), part.end());
  // 1.0f and its bits; the address 8 and a step of three 4-byte elements.
  all.push_back({Opcode::Bitcast, f32, {1}, 0x3f800000, i32, {}});
  all.push_back({Opcode::Bitcast, i16, {0x3f80}, 1, bf16, {}});
  all.push_back({Opcode::AddPtr, f32, {}, 20, f32, {}});
  return all;
}

TEST(EvalScalar, HandValues) {
  for (const Case& c : all_cases()) {
    if (c.op == Opcode::AddPtr) continue;
    const double got = value_of(call(c), c.out_dtype);
    std::string in;
    for (const double v : c.in) in += " " + std::to_string(v);
    const std::string what = std::string(info(c.op).mnemonic) + " " + std::string(name(c.dtype)) +
                             in + " -> " + std::string(name(c.out_dtype));
    if (std::isnan(c.out)) {
      EXPECT_TRUE(std::isnan(got)) << what << " gave " << got;
    } else {
      EXPECT_EQ(got, c.out) << what;
      EXPECT_EQ(std::signbit(got), std::signbit(c.out)) << what;
    }
  }
}

TEST(EvalScalar, EveryElementwiseOpHasACase) {
  std::set<Opcode> seen;
  for (const Case& c : all_cases()) seen.insert(c.op);
  for (int i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<Opcode>(i);
    const bool is_elementwise =
        info(op).family == Family::Elementwise || info(op).family == Family::Math;
    EXPECT_EQ(elementwise_fn(op) != nullptr, is_elementwise) << info(op).mnemonic;
    EXPECT_TRUE(!is_elementwise || seen.contains(op)) << "no case of " << info(op).mnemonic;
  }
}

TEST(EvalScalar, AddPtrScalesByThePointee) {
  const Cell address{.i = 8}, steps{.i = -3};
  const Cell* operands[] = {&address, &steps};
  const std::size_t strides[] = {0, 0};
  const Elem in[] = {{f32, true}, {i32, false}};
  Cell result{.i = 0};
  elementwise_fn(Opcode::AddPtr)({.attrs = {},
                                  .in = in,
                                  .out = {f32, true},
                                  .operands = operands,
                                  .strides = strides,
                                  .result = &result,
                                  .count = 1});
  EXPECT_EQ(result.i, -4);
}

TEST(EvalScalar, WideIntegersAreRoundedOnce) {
  // Just above the midpoint of two f32; an intermediate f64 would be at it.
  const std::int64_t above = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
  for (const std::int64_t v : {above, -above}) {
    const Cell in{.i = v};
    const Cell* operands[] = {&in};
    const std::size_t strides[] = {0};
    const Elem elems[] = {{i64, false}};
    Cell result{.i = 0};
    elementwise_fn(Opcode::Cast)({.attrs = {},
                                  .in = elems,
                                  .out = {f32, false},
                                  .operands = operands,
                                  .strides = strides,
                                  .result = &result,
                                  .count = 1});
    EXPECT_EQ(result.f, std::copysign(0x1p60 + 0x1p37, static_cast<double>(v)));
  }
}

TEST(EvalScalar, DivisionByZeroIsPoison) {
  for (const Opcode op : {Opcode::Div, Opcode::Rem}) {
    std::uint8_t poison = 0;
    call(same(op, i32, {7, 0}, 0), &poison);
    EXPECT_EQ(poison, 1);
    poison = 0;
    call(same(op, i32, {0, 7}, 0), &poison);
    EXPECT_EQ(poison, 0);
  }
}

TEST(EvalScalar, ScalarOperandsBroadcast) {
  const Cell a[] = {{.f = 1}, {.f = 2}, {.f = 3}}, b{.f = 10};
  const Cell* operands[] = {a, &b};
  const std::size_t strides[] = {1, 0};
  const Elem in[] = {{f32, false}, {f32, false}};
  Cell result[3];
  elementwise_fn(Opcode::Mul)({.attrs = {},
                               .in = in,
                               .out = {f32, false},
                               .operands = operands,
                               .strides = strides,
                               .result = result,
                               .count = 3});
  EXPECT_EQ(result[0].f, 10);
  EXPECT_EQ(result[2].f, 30);
}

TEST(EvalScalar, NoMeaningIsAnInternalError) {
  EXPECT_THROW(call(same(Opcode::Rem, f32, {1, 2}, 0)), InternalError);
  EXPECT_THROW(call(same(Opcode::And, f32, {1, 2}, 0)), InternalError);
  EXPECT_THROW(call(same(Opcode::Exp2, i32, {1}, 0)), InternalError);
}

TEST(EvalScalar, BitsGoThereAndBack) {
  for (const DTypeInfo& t : kDTypeInfo) {
    const std::uint64_t count = t.bits >= 16 ? 65536 : std::uint64_t{1} << t.bits;
    for (std::uint64_t i = 0; i < count; ++i) {
      // Wide types have the pattern in their upper bits: sign, exponent and NaN payload.
      const std::uint64_t bits = t.bits > 16 ? i << (t.bits - 16) : i;
      const Cell c = from_bits(bits, t.dtype);
      ASSERT_EQ(to_bits(c, t.dtype), bits) << t.name;
      // Rounding makes every NaN the canonical one and saturates fp8.
      if (is_float(t.dtype) && (std::isnan(c.f) || (t.bits == 8 && std::isinf(c.f)))) continue;
      const Cell again = canonical(c, t.dtype);
      ASSERT_EQ(to_bits(again, t.dtype), bits) << t.name;
    }
  }
}

TEST(EvalScalar, ANewNanIsCanonical) {
  EXPECT_EQ(to_bits(call(same(Opcode::Sub, f32, {kInf, kInf}, 0)), f32), 0x7fffffffu);
  EXPECT_EQ(to_bits(call(same(Opcode::Sub, bf16, {kInf, kInf}, 0)), bf16), 0x7fffu);
  EXPECT_EQ(to_bits(call(same(Opcode::Sub, f16, {kInf, kInf}, 0)), f16), 0x7fffu);
}

}  // namespace
}  // namespace tegula::ir::eval_scalar_test
