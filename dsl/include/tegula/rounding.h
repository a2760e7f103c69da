#pragma once
#include "tegula/math.h"

/// Conversions with selectable rounding and overflow, and minima and maxima that keep a NaN.
namespace tegula {

/// How a conversion to a type with fewer digits rounds.
enum class Round : std::uint8_t {
  nearest,  ///< to the nearest value, ties to even; of floats to integers as well
  zero,     ///< towards zero
};
/// The treatment of values beyond the range of a conversion's type.
enum class Saturate : std::uint8_t {
  by_type,  ///< as `cast` does: infinity of f16, bf16 and f32, the largest number of fp8,
            ///< integers to integers wrap
  always,   ///< the largest or smallest finite value of the type, for infinities as well
};

/// Random bits (a u32 tile, one number for each element, of which the low bits are used) that
/// decide how a conversion rounds.
struct Stochastic {
  Arg bits;  ///< u32
};

/// Returns the value converted to T with this rounding and saturation. Floats to integers always
/// saturate, and NaN gives 0.
template <Element T>
Tile cast(const Arg& x, Round round, Saturate saturate = Saturate::by_type);
Tile cast(const Arg& x, DType to, Round round, Saturate saturate = Saturate::by_type);

/// Returns the value, computed as f32, rounded to T (f16, bf16, f8e4m3 or f8e5m2): up or down to a
/// neighbour in T, with probabilities that make the mean equal to the value. Values of T,
/// infinities and NaN stay unchanged; results beyond the largest finite value are infinity, for fp8
/// that value. Throws CompileError for another type T, and for bits that are not u32.
template <Element T>
Tile cast(const Arg& x, const Stochastic& by);
Tile cast(const Arg& x, DType to, const Stochastic& by);

/// The result of `min` and `max` if one operand is NaN.
enum class Nan : std::uint8_t {
  ignore,     ///< the number
  propagate,  ///< NaN
};
Tile min(const Arg& a, const Arg& b, Nan policy);
Tile max(const Arg& a, const Arg& b, Nan policy);

template <Element T>
Tile cast(const Arg& x, Round round, Saturate saturate) {
  return cast(x, dtype_of<T>, round, saturate);
}
template <Element T>
Tile cast(const Arg& x, const Stochastic& by) {
  return cast(x, dtype_of<T>, by);
}

}  // namespace tegula
