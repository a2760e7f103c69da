#include "ir/cast_mode.h"

namespace tegula::ir {
namespace {

/// Returns the binary digits of the largest magnitude of an integer type or i1.
int digits(DType d) { return size_bits(d) - (is_signed(d) ? 1 : 0); }

}  // namespace

bool holds_all(DType to, DType from) {
  if (to == from) return true;
  const DTypeInfo &t = dtype_info(to), &f = dtype_info(from);
  // More exponent bits extend the range at both ends. f8e4m3 has no infinity, but neither has any
  // type with fewer exponent bits.
  if (is_float(to) && is_float(from))
    return t.exponent_bits >= f.exponent_bits && t.mantissa_bits >= f.mantissa_bits;
  // With all digits kept, the exponent range is wide enough in every float type.
  if (is_float(to)) return digits(from) <= t.mantissa_bits + 1;
  if (is_float(from) || is_bool(to)) return false;
  return digits(to) >= digits(from) && (is_signed(to) || !is_signed(from));
}

CastMode cast_mode(const AttrList& attrs, DType from, DType to) {
  return {attrs.s(AttrName::round, "rn") == "rz",
          attrs.i(AttrName::sat) != 0 && !holds_all(to, from)};
}

}  // namespace tegula::ir
