// Conversions from wide types to narrow floats go through f32 and must round once all the same. The
// PTX that both emitters write is executed here, instruction by instruction, and compared with the
// interpreter next to every point where the rounding turns.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <random>

#include "codegen/emit.h"
#include "codegen/ptx/instructions.h"
#include "ir/eval/cell.h"
#include "ir/text.h"
#include "support/text.h"
#include "tests/unit/codegen/f8_kernels.h"

namespace tegula::codegen::ptx_cast_test {
namespace {

using ir::Cell;

// ---- the few instructions of these conversions, as the PTX ISA has them

float towards_zero(double x) {
  const auto f = static_cast<float>(x);
  return std::isfinite(x) && std::fabs(f) > std::fabs(x) ? std::nextafter(f, 0.0f) : f;
}

float towards_zero(Cell x, std::string_view type) {
  if (type == "f64") return towards_zero(x.f);
  // A long double holds 64 bits; the float nearest to it is at most one step too far.
  const long double v = type[0] == 'u' ? static_cast<long double>(static_cast<std::uint64_t>(x.i))
                                       : static_cast<long double>(x.i);
  const auto f = static_cast<float>(v);
  return std::fabs(static_cast<long double>(f)) > std::fabs(v) ? std::nextafter(f, 0.0f) : f;
}

struct Instruction {
  std::string unless;  // a predicate, or empty
  std::string op;
  std::vector<std::string> a;
};

/// An Asm's text as instructions; declarations are of no interest.
std::vector<Instruction> program_of(std::string_view text) {
  std::vector<Instruction> out;
  for (std::string_view piece : split(text, ';')) {
    std::string line(piece);
    std::erase_if(line, [](char c) { return c == '{' || c == '}'; });
    line = std::string(trim(line));
    if (line.empty() || line.starts_with(".reg")) continue;
    Instruction& i = out.emplace_back();
    if (line.starts_with("@!")) {
      const auto space = line.find(' ');
      i.unless = line.substr(2, space - 2);
      line = line.substr(space + 1);
    }
    i.op = line.substr(0, line.find(' '));
    for (std::string_view s : split(std::string_view(line).substr(i.op.size()), ','))
      i.a.emplace_back(trim(s));
  }
  return out;
}

class Machine {
 public:
  Machine(DType to, Cell x) : to_(to), x_(x) {}

  /// The bits of #0 afterwards.
  std::uint64_t run(const std::vector<Instruction>& program) {
    for (const Instruction& i : program)
      if (i.unless.empty() || bits_.at(i.unless) == 0) execute(i.op, i.a);
    return bits_["#0"] & ((std::uint64_t{1} << size_bits(to_)) - 1);
  }

 private:
  float f32(const std::string& name) {
    if (name.starts_with("0f"))
      return std::bit_cast<float>(
          static_cast<std::uint32_t>(std::stoul(name.substr(2), nullptr, 16)));
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_.at(name)));
  }
  void set_f32(const std::string& name, float v) { bits_[name] = std::bit_cast<std::uint32_t>(v); }

  void execute(const std::string& op, const std::vector<std::string>& a) {
    const std::string last = op.substr(op.rfind('.') + 1);
    if (op.starts_with("cvt.rz.f32.")) {
      ASSERT_EQ(a[1], "#1");
      set_f32(a[0], towards_zero(x_, last));
    } else if (op == "cvt.f64.f32") {
      back_ = {};
      back_.f = f32(a[1]);
    } else if (op.starts_with("cvt.rzi.") && last == "f32") {
      back_.i = op[8] == 'u' ? static_cast<std::int64_t>(static_cast<std::uint64_t>(f32(a[1])))
                             : static_cast<std::int64_t>(f32(a[1]));
    } else if (op == "setp.equ.f64") {
      bits_[a[0]] = !(back_.f < x_.f || back_.f > x_.f);  // unordered: true
    } else if (op.starts_with("setp.eq.")) {
      bits_[a[0]] = back_.i == x_.i;
    } else if (op == "mov.b32") {
      bits_[a[0]] = bits_.at(a[1]);
    } else if (op == "or.b32") {
      bits_[a[0]] = bits_.at(a[1]) | std::stoul(a[2]);
    } else if (op == "cvt.rn.satfinite.e4m3x2.f32") {
      ASSERT_EQ(f32(a[1]), 0) << "the upper half";
      bits_[a[0]] = f8e4m3(f32(a[2])).bits;
    } else if (op == "cvt.rn.satfinite.e5m2x2.f32") {
      ASSERT_EQ(f32(a[1]), 0) << "the upper half";
      bits_[a[0]] = f8e5m2(f32(a[2])).bits;
    } else if (op == "cvt.rn.bf16.f32") {
      bits_[a[0]] = bf16(f32(a[1])).bits;
    } else {
      FAIL() << op << " is not an instruction of this test";
    }
  }

  DType to_;
  Cell x_, back_{};  // `back` is as wide as the source
  std::map<std::string, std::uint64_t> bits_;
};

std::uint64_t oracle(DType from, DType to, Cell x) {
  const ir::Elem in[] = {{from, false}};
  const Cell* operands[] = {&x};
  const std::size_t strides[] = {0};
  const ir::AttrList none;
  Cell result;
  ir::elementwise_fn(ir::Opcode::Cast)({none, in, {to, false}, operands, strides, &result, 1});
  return ir::to_bits(result, to);
}

// ---- where rounding turns

/// The finite values of a narrow float that are not negative, in order; of bf16 a part, for there
/// are many.
template <class T>
std::vector<double> values_of() {
  constexpr unsigned kStep = sizeof(T) == 1 ? 1 : 41;
  std::vector<double> out;
  for (unsigned b = 0; b <= T::kMaxBits; b += kStep)
    for (unsigned next : {b, b + 1})
      if (next <= T::kMaxBits)
        out.push_back(static_cast<float>(T::from_bits(static_cast<decltype(T::bits)>(next))));
  return out;
}

/// Every value, every tie between two, and numbers next to them: by an f64's last place, by less
/// than an f32 can tell, and by just what it can.
std::vector<double> turning_points(const std::vector<double>& values) {
  std::vector<double> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double v = values[i], before = i == 0 ? 0 : values[i - 1];
    for (double p : {v, (before + v) / 2, v + (v - before) / 2})
      for (double nudge : {0.0, 0x1p-52, 0x1p-40, 0x1p-30, 0x1p-25, 0x1p-24, 0x1p-23})
        for (double s : {1 + nudge, 1 - nudge})
          for (double sign : {1.0, -1.0}) out.push_back(sign * p * s);
  }
  for (double p : {0x1p-149, 0x1p-150, 0x1p-1074, 0x1p-1022, 0x1p127, 0x1.fffffep127, 0x1p128,
                   1e300, HUGE_VAL, std::nan("")})
    for (double sign : {1.0, -1.0}) out.push_back(sign * p);
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) out.push_back(std::bit_cast<double>(random()));
  return out;
}

std::vector<std::uint64_t> integer_turning_points() {
  std::vector<std::uint64_t> out;
  std::mt19937_64 random(11);
  for (int shift = 1; shift < 64; ++shift)
    for (std::uint64_t m : {128, 129, 144, 170, 171, 191, 192, 254, 255})
      for (std::uint64_t low : {std::uint64_t{0}, std::uint64_t{1} << (shift - 1)})
        for (std::uint64_t off : {~std::uint64_t{0}, std::uint64_t{0}, std::uint64_t{1}}) {
          const std::uint64_t v = (m << shift) + low + off;
          out.insert(out.end(), {v, ~v + 1, v & 0xffffffff});
        }
  for (int i = 0; i < 20000; ++i) out.push_back(random());
  return out;
}

/// Conversions that differ from the oracle's; the first one fails the test unless some are
/// expected.
int mismatches(DType from, DType to, const std::vector<Cell>& xs, const std::string& text,
               bool are_expected = false) {
  int wrong = 0;
  const std::vector<Instruction> program = program_of(text);
  for (const Cell& x : xs) {
    const std::uint64_t want = oracle(from, to, x), got = Machine(to, x).run(program);
    if (want == got) continue;
    if (++wrong == 1 && !are_expected)
      ADD_FAILURE() << name(from) << " to " << name(to) << ": " << std::hex << ir::to_bits(x, from)
                    << " gives " << got << ", not " << want;
  }
  return wrong;
}

/// A target that has 8-bit floats but no instruction that converts to bf16 at once.
ir::Target without_instruction(DType to) {
  return to == DType::bf16 ? ir::Target("sm_80") : ir::Target("sm_90a");
}

std::vector<Cell> cells(const std::vector<double>& values) {
  std::vector<Cell> out;
  for (double v : values) {
    Cell c{};
    c.f = v;
    out.push_back(c);
  }
  return out;
}

std::vector<Cell> cells(const std::vector<std::uint64_t>& bits, DType d) {
  std::vector<Cell> out;
  const std::uint64_t mask = size_bits(d) == 64 ? ~std::uint64_t{0} : 0xffffffffu;
  for (std::uint64_t b : bits) out.push_back(ir::from_bits(b & mask, d));
  return out;
}

template <class T>
class RoundsOnce : public ::testing::Test {};
using NarrowFloats = ::testing::Types<f8e4m3, f8e5m2, bf16>;
TYPED_TEST_SUITE(RoundsOnce, NarrowFloats);

TYPED_TEST(RoundsOnce, FromF64) {
  constexpr DType to = dtype_of<TypeParam>;
  const ir::Target target = without_instruction(to);
  const auto xs = cells(turning_points(values_of<TypeParam>()));
  const std::string text = ptx::cast(DType::f64, to, *target).text;
  EXPECT_EQ(mismatches(DType::f64, to, xs, text), 0);
  // The same without the odd bit: were these numbers harmless, the test would show nothing.
  std::string twice = text;
  const std::string odd = "@!exact or.b32 odd, odd, 1;";
  ASSERT_NE(twice.find(odd), std::string::npos) << text;
  EXPECT_GT(mismatches(DType::f64, to, xs, twice.erase(twice.find(odd), odd.size()), true), 100);
}

TYPED_TEST(RoundsOnce, FromIntegers) {
  constexpr DType to = dtype_of<TypeParam>;
  for (DType from : {DType::i32, DType::u32, DType::i64, DType::u64}) {
    const ir::Target target = without_instruction(to);
    const auto xs = cells(integer_turning_points(), from);
    EXPECT_EQ(mismatches(from, to, xs, ptx::cast(from, to, *target).text), 0);
  }
}

/// Nothing else converts: neither a C++ cast nor a second instruction.
TEST(RoundsOnceInCuda, TheSourceHasTheseInstructionsAndNoOther) {
  for (const bool vector : {false, true}) {
    const std::string source =
        emit_cuda(
            ir::parse(fmt::format(
                R"(kernel @k simt target(sm_90a) threads(32) (%p: ptr<f64>, %q: ptr<f8e5m2>) {{
  %x = ld_global %p [width = {2}] : {0}
  %y = cast %x : {1}
  st_global %q, %y [width = {2}]
}})",
                vector ? "v<2xf64>" : "f64", vector ? "v<2xf8e5m2>" : "f8e5m2", vector ? 2 : 1)))
            .source;
    EXPECT_EQ(test::lacks_f64_to_f8(source), "") << source;
    EXPECT_EQ(source.find("float("), std::string::npos) << source;
  }
}

}  // namespace
}  // namespace tegula::codegen::ptx_cast_test
