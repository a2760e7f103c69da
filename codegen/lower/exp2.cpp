#include "codegen/lower/exp2.h"

#include <array>

#include "codegen/lower/lowering.h"

namespace tegula::codegen {

using namespace ir;

/// x = n + f, |f| <= 1/2: 2^f by a polynomial, times 2^n made of its bits. n is -127 to 128, which
/// as an exponent are those of 0 and of infinity; f = 0 gives 1 exactly, so that -inf gives 0. The
/// polynomial is a least-squares fit of (2^f - 1) / f, weighted until its largest error was least.
Value exp2_by_polynomial(Builder& b, Value x) {
  constexpr double kRound = 0x1.8p23 + 127;  // the sum's low bits are n's as an exponent
  constexpr std::array kFit{0.0013264727271840582, 0.009671512732931573, 0.055507337439261145,
                            0.24022242083945727, 0.6931469775982758};
  const auto kept = [&](Opcode o, Value v, double bound) {
    return b.op(o, {v, b.f32(bound)}, {{AttrName::nan, "propagate"}});
  };
  x = kept(Opcode::Min, kept(Opcode::Max, x, -127), 128);
  const Value rounded = b.add(x, b.f32(kRound));
  const Value f = b.sub(x, b.sub(rounded, b.f32(kRound)));
  Value power = b.f32(kFit.front());
  for (std::size_t i = 1; i < kFit.size(); ++i)
    power = b.op(Opcode::Fma, {f, power, b.f32(kFit[i])});
  power = b.op(Opcode::Fma, {f, power, b.f32(1)});
  const Type type = b.kernel().type(x);
  const Value bits = b.op(Opcode::Bitcast, {rounded}, type.with_dtype(DType::i32));
  const Value scale = b.op(Opcode::Bitcast, {b.op(Opcode::Shl, {bits, b.i32(23)})}, type);
  return b.mul(power, scale);
}

/// Of every 16 registers plan.exp2_share, evenly spread: the others are computed beside them.
Value Lowering::lower_exp2(Value x) {
  constexpr int kGroup = 16;
  const auto count = static_cast<int>(type(x).count());
  const int share = context.plan->exp2_share;
  std::vector<Value> results;
  for (int first = 0; first < count; first += kGroup) {
    std::array<std::vector<int>, 2> chosen;  // by function, by polynomial
    std::vector<std::int64_t> back;
    for (int i = 0; i < kGroup; ++i) {
      const bool by_polynomial = (i + 1) * share / kGroup > i * share / kGroup;
      back.push_back((by_polynomial ? kGroup - share : 0) +
                     static_cast<std::int64_t>(chosen[by_polynomial].size()));
      chosen[by_polynomial].push_back(first + i);
    }
    std::vector<Value> parts;
    if (share < kGroup) parts.push_back(b.op(Opcode::Exp2, {regs(x, chosen[0])}));
    parts.push_back(exp2_by_polynomial(b, regs(x, chosen[1])));
    results.push_back(regs(concat(parts), back));
  }
  return concat(results);
}

}  // namespace tegula::codegen
