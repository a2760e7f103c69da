// Division of a tile by a value per row: registers that share their divisor share its reciprocal.
//
// Before:  q = div x, (regs d [0, 0, ..])
// After:   if any lane of the warp has an operand out of range { q = div x, .. }
//          else { r = 1/d, refined once; q0 = x * r; q = q0 + (x - q0 * d) * r }
//
// In the range the result is the correctly rounded quotient: this is what `div.rn.f32` computes for
// each element, with a separate reciprocal, range check and branch.
#include <algorithm>
#include <array>
#include <bit>

#include "codegen/lower/repeated_registers.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Registers per divisor from which the range check costs less than it saves.
constexpr std::size_t kMinShared = 4;

/// Bits of a float rotated by one, so that they are ordered by magnitude. For a power of two.
constexpr std::int64_t rotated_power(int exponent) {
  return static_cast<std::int64_t>(std::bit_cast<std::uint32_t>(1.0F) + (exponent << 23)) << 1;
}

class SharedDivision {
 public:
  SharedDivision(Lowering& l, Value x, Value by, const RepeatedRegisters& divisors)
      : l_(l),
        b_(l.b),
        x_(x),
        by_(by),
        divisors_(b_.op(Opcode::Regs, divisors.from, {{AttrName::indices, divisors.different}})),
        of_element_(divisors.of_element) {}

  Value run() {
    const Value slow =
        b_.op(Opcode::Vote, {is_out_of_range()}, {{AttrName::kind, "any"}, {AttrName::approx, 1}});
    const Type result = type(x_);
    const OpId branch = l_.branch(
        slow, std::span(&result, 1), [&] { b_.yield(std::array{b_.op(Opcode::Div, {x_, by_})}); },
        [&] { b_.yield(std::array{by_reciprocal()}); });
    return l_.to[branch].results[0];
  }

 private:
  Type type(Value v) const { return l_.to.type(v); }
  Value negated(Value v) { return b_.op(Opcode::Neg, {v}); }
  Value fma(Value x, Value y, Value z) { return b_.op(Opcode::Fma, {x, y, z}); }
  /// Returns the register of each element.
  Value repeated(Value different) {
    return b_.op(Opcode::Regs, {different}, {{AttrName::indices, of_element_}});
  }

  Value by_reciprocal() {
    const Value guess = b_.op(Opcode::Rcp, {divisors_}, {{AttrName::approx, 1}});
    const Value error = fma(negated(divisors_), guess, b_.constant(type(divisors_), 1.0));
    const Value reciprocal = repeated(fma(guess, error, guess));
    const Value q = b_.mul(x_, reciprocal);
    return fma(reciprocal, fma(negated(by_), q, x_), q);
  }

  Value rotated_bits(Value v) {
    const Type bits = type(v).with_elem({DType::u32, false});
    const auto number = [&](std::int64_t n) { return b_.constant(bits, n); };
    const Value plain = b_.op(Opcode::Bitcast, {v}, bits);
    return b_.op(Opcode::Or,
                 {b_.op(Opcode::Shl, {plain, number(1)}), b_.op(Opcode::Shr, {plain, number(31)})});
  }

  /// Magnitudes of several values, as rotated bits.
  struct Range {
    Value low, high;
  };
  Value selected(Value v, std::int64_t from, std::int64_t count) {
    Ints indices;
    for (std::int64_t i = 0; i < count; ++i) indices.push_back(std::min(from + i, count_of(v) - 1));
    return b_.op(Opcode::Regs, {v}, {{AttrName::indices, indices}});
  }
  std::int64_t count_of(Value v) const { return type(v).is_vec() ? type(v).count() : 1; }

  /// Returns the range of all registers. Few are compared at a time, so that few more are live.
  Range range_of(Value v, bool may_be_zero) {
    constexpr std::int64_t kAtOnce = 4;
    std::optional<Range> all;
    for (std::int64_t i = 0; i < count_of(v); i += kAtOnce) {
      const Value bits = rotated_bits(selected(v, i, kAtOnce));
      const Value low = may_be_zero ? b_.sub(bits, b_.constant(type(bits), std::int64_t{1})) : bits;
      all = all ? Range{b_.op(Opcode::Min, {all->low, low}), b_.op(Opcode::Max, {all->high, bits})}
                : Range{low, bits};
    }
    return {folded(Opcode::Min, all->low), folded(Opcode::Max, all->high)};
  }
  Value folded(Opcode op, Value v) {
    for (std::int64_t count = count_of(v); count > 1; count /= 2)
      v = b_.op(op, {selected(v, 0, count / 2), selected(v, count / 2, count / 2)});
    return selected(v, 0, 1);
  }

  /// Quotients in the range are normal, and remainders exact. +0 is in the range of x.
  Value is_out_of_range() {
    const auto limit = [&](Value v, int exponent, std::int64_t minus) {
      return b_.constant(type(v), rotated_power(exponent) - minus);
    };
    const Range x = range_of(x_, true), d = range_of(divisors_, false);
    Value out = b_.cmp("gt", x.high, limit(x.high, 63, 0));
    out = b_.op(Opcode::Or, {out, b_.cmp("lt", x.low, limit(x.low, -63, 1))});
    out = b_.op(Opcode::Or, {out, b_.cmp("gt", d.high, limit(d.high, 62, 0))});
    return b_.op(Opcode::Or, {out, b_.cmp("lt", d.low, limit(d.low, -62, 0))});
  }

  Lowering& l_;
  Builder& b_;
  Value x_, by_;
  Value divisors_;  ///< the registers of `by_` that differ
  const Ints& of_element_;
};

}  // namespace

std::optional<Value> Lowering::lower_shared_division(OpId op, Value x, Value by) {
  const Type t = type(x);
  if (!t.is_vec() || t.dtype() != DType::f32 || from[op].attrs.i(AttrName::approx) == 1)
    return std::nullopt;
  const auto divisors = repeated_registers(*this, by);
  if (!divisors || divisors->of_element.size() < kMinShared * divisors->different.size())
    return std::nullopt;
  return SharedDivision(*this, x, by, *divisors).run();
}

}  // namespace tegula::codegen
