#pragma once
#include "tegula/math.h"

/// Conversions whose rounding and overflow are chosen, and minima and maxima that keep a NaN.
namespace tegula {

/// How a conversion to a type with fewer digits rounds.
enum class Round : std::uint8_t {
  nearest,  ///< to the nearest value, ties to even; of floats to integers as well
  zero,     ///< towards zero
};
/// The treatment of values beyond the range of a conversion's type.
enum class Saturate : std::uint8_t {
  by_type,  ///< as `cast` does: infinity of f16, bf16 and f32, the largest number of fp8,
            ///< integers of integers wrap
  always,   ///< the largest or smallest finite value of the type, of infinities as well
};

/// Random bits (a u32 tile, one number for each element, of which the low bits are used) that
/// decide how a conversion rounds.
struct Stochastic {
  Arg bits;
};

/// The value converted to T, rounded and saturated as said. Floats to integers saturate anyhow, and
/// NaN gives 0.
template <Element T>
Tile cast(const Arg& x, Round round, Saturate saturate = Saturate::by_type);
Tile cast(const Arg& x, DType to, Round round, Saturate saturate = Saturate::by_type);

/// The value, computed as f32, converted to T (f16, bf16, f8e4m3 or f8e5m2): up or down to a
/// neighbour in T, with the probabilities that make the mean the value itself. Values of T stay as
/// they are, infinities and NaN as well; what rounds beyond the largest finite value is infinity,
/// of fp8 that value. CompileError for another type T, and for bits that are not u32.
template <Element T>
Tile cast(const Arg& x, const Stochastic& by);
Tile cast(const Arg& x, DType to, const Stochastic& by);

/// The operand that `min` and `max` give if one is NaN.
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
