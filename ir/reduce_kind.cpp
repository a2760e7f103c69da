// The table of built-in folds.
#include "ir/reduce_kind.h"

#include <array>
#include <limits>

#include "tegula/error.h"

namespace tegula::ir {
namespace {

Value integer(Builder& b, DType t, std::int64_t v) { return b.constant(Type::scalar(t), v); }
Value constant_of(Builder& b, DType t, std::int64_t v) {
  return is_float(t) ? b.constant(Type::scalar(t), static_cast<double>(v)) : integer(b, t, v);
}
Value extreme(Builder& b, DType t, bool smallest) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (is_float(t)) return b.constant(Type::scalar(t), smallest ? -inf : inf);
  const int bits = size_bits(t);
  if (!is_signed(t))
    return integer(b, t, smallest ? 0 : bits == 64 ? -1 : (std::int64_t{1} << bits) - 1);
  const std::int64_t low =
      bits == 64 ? std::numeric_limits<std::int64_t>::min() : -(std::int64_t{1} << (bits - 1));
  return integer(b, t, smallest ? low : ~low);
}

constexpr std::array kKinds{
    ReduceKind{"sum", Opcode::Add, [](Builder& b, DType t) { return constant_of(b, t, 0); }},
    ReduceKind{"prod", Opcode::Mul, [](Builder& b, DType t) { return constant_of(b, t, 1); }},
    ReduceKind{"max", Opcode::Max, [](Builder& b, DType t) { return extreme(b, t, true); }},
    ReduceKind{"min", Opcode::Min, [](Builder& b, DType t) { return extreme(b, t, false); }},
    ReduceKind{"and", Opcode::And,
               [](Builder& b, DType t) { return integer(b, t, t == DType::i1 ? 1 : -1); }},
    ReduceKind{"or", Opcode::Or, [](Builder& b, DType t) { return integer(b, t, 0); }},
    ReduceKind{"xor", Opcode::Xor, [](Builder& b, DType t) { return integer(b, t, 0); }},
};

}  // namespace

const ReduceKind& reduce_kind(std::string_view name) {
  for (const ReduceKind& k : kKinds)
    if (k.name == name) return k;
  throw InternalError("no such reduction: " + std::string(name));
}

}  // namespace tegula::ir
