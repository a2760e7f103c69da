#include "codegen/lower/sort_key.h"

#include "ir/eval/number.h"

namespace tegula::codegen {

using namespace ir;

SortKey::SortKey(Lowering& l, DType dtype, bool descending, SortWord word)
    : l_(l),
      dtype_(dtype),
      wide_(is_float(dtype) && size_bits(dtype) < 32    ? DType::f32
            : !is_float(dtype) && size_bits(dtype) < 32 ? DType::i32
                                                        : dtype),
      bits_(size_bits(wide_) == 64 ? DType::u64 : DType::u32),
      is_descending_(descending),
      word_(word) {}

Value SortKey::number(std::uint64_t v) {
  return l_.b.constant(Type::scalar(bits_), static_cast<std::int64_t>(v));
}
std::uint64_t SortKey::all_ones() const {
  return is_packed() ? 0xffffu : bits_ == DType::u64 ? ~std::uint64_t{0} : 0xffffffffu;
}

/// Returns the bits with the sign of positive numbers and all bits of negative ones inverted:
/// larger numbers get larger keys. The canonical NaN of 32 bits becomes all ones.
Value SortKey::ordered_float(Value x) {
  const bool is_wide = bits_ == DType::u64;
  const DType integer = is_wide ? DType::i64 : DType::i32;
  const Value plain = forwards(x);
  const Type type = l_.type(x);
  const Value bits = l_.b.op(Opcode::Bitcast, {plain}, type.with_dtype(integer));
  const Value sign = l_.b.constant(Type::scalar(integer), std::int64_t{is_wide ? 63 : 31});
  const Value top =
      l_.b.constant(Type::scalar(integer), is_wide ? INT64_MIN : std::int64_t{INT32_MIN});
  const Value flips = l_.b.op(Opcode::Or, {l_.b.op(Opcode::Shr, {bits, sign}), top});
  return l_.b.op(Opcode::Bitcast, {l_.b.op(Opcode::Xor, {bits, flips})}, type.with_dtype(bits_));
}

/// Returns the numbers, negated for a descending sort. Zeros become +0 and NaNs canonical, because
/// an addition produces the canonical NaN.
Value SortKey::forwards(Value x) {
  const Value zero = l_.b.constant(Type::scalar(wide_), 0.0);
  return is_descending_ ? l_.b.sub(zero, x) : l_.b.add(x, zero);
}

Value SortKey::ordered_integer(Value x) {
  const Type type = l_.type(x).with_dtype(bits_);
  if (size_bits(dtype_) < 32) {
    const Value from_zero =
        is_signed(dtype_) ? l_.b.add(x, l_.b.i32(1 << (size_bits(dtype_) - 1))) : x;
    return l_.b.op(Opcode::Bitcast, {from_zero}, type);
  }
  const Value bits = l_.b.op(Opcode::Bitcast, {x}, type);
  const std::uint64_t top = std::uint64_t{1} << (size_bits(bits_) - 1);
  return is_signed(dtype_) ? l_.b.op(Opcode::Xor, {bits, number(top)}) : bits;
}

Value SortKey::ordered(Value registers) {
  const Value x = l_.b.cast(registers, wide_);
  if (is_float(dtype_)) {
    const Value key = ordered_float(x);
    return has_canonical_nan() ? key : l_.b.select(l_.b.cmp("ne", x, x), number(all_ones()), key);
  }
  const Value key = ordered_integer(x);
  return is_descending_ ? l_.b.op(Opcode::Xor, {key, number(all_ones())}) : key;
}

Tuple SortKey::encode(Value registers, Value index, Value present) {
  Value key = ordered(registers), place = index;
  // These floats have zero low bits in f32, which the encoding flips for negative numbers.
  if (is_packed())
    key = is_float(dtype_) ? l_.b.op(Opcode::And, {key, number(0xffff0000u)})
                           : l_.b.op(Opcode::Shl, {key, number(16)});
  if (present) {
    key = l_.b.select(present, key, number(is_packed() ? 0xffff0000u : all_ones()));
    place = l_.b.select(present, place, l_.b.add(place, l_.b.i32(kSortedPlaces)));
  }
  if (word_ == SortWord::Key) return {key};
  if (!is_packed()) return {key, place};
  const Value low = l_.b.op(Opcode::Bitcast, {place}, l_.type(place).with_dtype(bits_));
  return {l_.b.op(Opcode::Or, {key, low})};
}

Value SortKey::less(const Tuple& a, const Tuple& b) {
  const Value before = l_.b.cmp("lt", a[0], b[0]);
  if (is_word()) return before;
  const Value tied = l_.b.op(Opcode::And, {l_.b.cmp("eq", a[0], b[0]), l_.b.cmp("lt", a[1], b[1])});
  return l_.b.op(Opcode::Or, {before, tied});
}

Value SortKey::restored_float(Value key) {
  const bool is_wide = bits_ == DType::u64;
  const DType integer = is_wide ? DType::i64 : DType::i32;
  const Value bits = l_.b.op(Opcode::Bitcast, {key}, l_.type(key).with_dtype(integer));
  const Value sign = l_.b.constant(Type::scalar(integer), std::int64_t{is_wide ? 63 : 31});
  const Value top =
      l_.b.constant(Type::scalar(integer), is_wide ? INT64_MIN : std::int64_t{INT32_MIN});
  const Value was_negative = l_.b.op(Opcode::Not, {l_.b.op(Opcode::Shr, {bits, sign})});
  const Value flips = l_.b.op(Opcode::Or, {was_negative, top});
  return l_.b.op(Opcode::Bitcast, {l_.b.op(Opcode::Xor, {bits, flips})},
                 l_.type(key).with_dtype(wide_));
}

Value SortKey::restored(Value key) {
  if (is_float(dtype_)) {
    Value bits = key;
    if (is_packed()) {
      // The low half is 0 for a positive number and all ones for a negative one, whose bits are all
      // flipped.
      const Value low =
          l_.b.select(l_.b.cmp("ge", bits, number(0x8000)), number(0), number(0xffff));
      bits = l_.b.op(Opcode::Or, {l_.b.op(Opcode::Shl, {bits, number(16)}), low});
    }
    const Value nan = l_.b.constant(Type::scalar(wide_), kNaN);
    const Value is_nan = l_.b.cmp("eq", key, number(all_ones()));
    return l_.b.cast(l_.b.select(is_nan, nan, forwards(restored_float(bits))), dtype_);
  }
  Value bits = is_descending_ ? l_.b.op(Opcode::Xor, {key, number(all_ones())}) : key;
  if (dtype_ == DType::i1) return l_.b.cmp("ne", bits, number(0));
  const bool has_sign = is_signed(dtype_);
  if (size_bits(dtype_) < 32) {
    const Value from_zero = l_.b.op(Opcode::Bitcast, {bits}, l_.type(bits).with_dtype(DType::i32));
    const Value x =
        has_sign ? l_.b.sub(from_zero, l_.b.i32(1 << (size_bits(dtype_) - 1))) : from_zero;
    return l_.b.cast(x, dtype_);
  }
  const std::uint64_t top = std::uint64_t{1} << (size_bits(bits_) - 1);
  if (has_sign) bits = l_.b.op(Opcode::Xor, {bits, number(top)});
  return l_.b.op(Opcode::Bitcast, {bits}, l_.type(bits).with_dtype(dtype_));
}

Tuple SortKey::decode(const Tuple& k) {
  Value key = k[0], index, is_nowhere;
  if (word_ == SortWord::Key) return {restored(key), l_.splat(l_.b.i32(0), l_.type(key).count())};
  if (is_packed()) {
    const Value low = l_.b.op(Opcode::And, {k[0], number(0xffff)});
    key = l_.b.op(Opcode::Shr, {k[0], number(16)});
    index = l_.b.op(Opcode::Bitcast, {low}, l_.type(low).with_dtype(DType::i32));
    is_nowhere = l_.b.cmp("ge", index, l_.b.i32(kSortedPlaces));
  } else {
    index = k[1];
    is_nowhere = l_.b.cmp("ge", index, l_.b.i32(kSortedPlaces));
  }
  const Value zero = is_float(dtype_) ? l_.b.constant(Type::scalar(dtype_), 0.0)
                                      : l_.b.constant(Type::scalar(dtype_), std::int64_t{0});
  return {l_.b.select(is_nowhere, zero, restored(key)),
          l_.b.select(is_nowhere, l_.b.i32(0), index)};
}

}  // namespace tegula::codegen
