// Warp shuffles of registers of any width.
#include "codegen/lower/shuffle.h"

namespace tegula::codegen {

using namespace ir;

Value shuffle(Lowering& l, Value v, Value lane, const char* mode) {
  const Type type = l.type(v);
  const auto exchange = [&](Value x) {
    return l.b.op(Opcode::Shfl, {x, lane}, {{AttrName::mode, mode}});
  };
  const int bits = size_bits(type.dtype());
  if (type.is_pointer() || bits == 64) {
    const Value vec = l.as_vec(v);
    const Value moved =
        exchange(l.b.op(Opcode::Repack, {vec}, Type::vec({DType::i32, false}, 2 * type.count())));
    const Value back = l.b.op(Opcode::Repack, {moved}, l.type(vec));
    return type.is_vec() ? back : l.b.op(Opcode::Regs, {back}, {{AttrName::indices, Ints{0}}});
  }
  if (bits == 32) return exchange(v);
  // 8-bit floats move as bits, because sm_80 cannot convert them.
  if (is_float(type.dtype()) && bits == 8) {
    const Type as_bits =
        type.is_vec() ? Type::vec({DType::u8, false}, type.count()) : Type::scalar(DType::u8);
    return l.b.op(Opcode::Bitcast, {shuffle(l, l.b.op(Opcode::Bitcast, {v}, as_bits), lane, mode)},
                  type);
  }
  // 16-bit floats are exact in f32; narrow integers in i32.
  if (is_float(type.dtype())) return l.b.cast(exchange(l.b.cast(v, DType::f32)), type.dtype());
  if (type.dtype() == DType::i1) {
    const Value moved = exchange(l.b.cast(v, DType::i32));
    return l.b.cmp("ne", moved, l.b.i32(0));
  }
  return l.b.cast(exchange(l.b.cast(v, DType::i32)), type.dtype());
}

}  // namespace tegula::codegen
