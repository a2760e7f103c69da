// The table of built-in folds.
#include "ir/reduce_kind.h"

#include <array>
#include <limits>

#include "tegula/error.h"

namespace tegula::ir {
namespace {

AttrValue number(DType t, std::int64_t v) {
  return is_float(t) ? AttrValue(static_cast<double>(v)) : AttrValue(v);
}
AttrValue extreme(DType t, bool smallest) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (is_float(t)) return smallest ? -inf : inf;
  const int bits = size_bits(t);
  if (!is_signed(t))
    return smallest     ? std::int64_t{0}
           : bits == 64 ? std::int64_t{-1}
                        : (std::int64_t{1} << bits) - 1;
  const std::int64_t low =
      bits == 64 ? std::numeric_limits<std::int64_t>::min() : -(std::int64_t{1} << (bits - 1));
  return smallest ? low : ~low;
}
AttrValue zero(DType t) { return number(t, 0); }

constexpr std::array kKinds{
    ReduceKind{"sum", Opcode::Add, zero},
    ReduceKind{"prod", Opcode::Mul, [](DType t) { return number(t, 1); }},
    ReduceKind{"max", Opcode::Max, [](DType t) { return extreme(t, true); }},
    ReduceKind{"min", Opcode::Min, [](DType t) { return extreme(t, false); }},
    ReduceKind{"and", Opcode::And, [](DType t) { return number(t, t == DType::i1 ? 1 : -1); }},
    ReduceKind{"or", Opcode::Or, zero},
    ReduceKind{"xor", Opcode::Xor, zero},
};

}  // namespace

Value ReduceKind::identity(Builder& b, DType type) const {
  const AttrValue value = neutral(type);
  const Type t = Type::scalar(type);
  return is_float(type) ? b.constant(t, std::get<double>(value))
                        : b.constant(t, std::get<std::int64_t>(value));
}

bool ReduceKind::is_identity(const Kernel& k, Value v) const {
  OpId def = k[v].def;
  if (def && k[def].is(Opcode::Splat, Opcode::Broadcast)) def = k[k[def].operands[0]].def;
  return def && k[def].opcode == Opcode::Const &&
         *k[def].attrs.find(AttrName::value) == neutral(k.type(v).dtype());
}

const ReduceKind& reduce_kind(std::string_view name) {
  for (const ReduceKind& k : kKinds)
    if (k.name == name) return k;
  throw InternalError("no such reduction: " + std::string(name));
}

}  // namespace tegula::ir
