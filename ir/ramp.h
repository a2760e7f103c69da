#pragma once
// Evenly spaced numbers along a dimension: positions among the integers, `fma(arange, step, first)`
// among the floats. A thread's registers then differ by constants, and each costs one fma.
#include <cstdint>
#include <optional>

#include "ir/builder.h"

namespace tegula::ir {

/// base + start + step * i for i below `extent`; no base is 0.
struct IntRamp {
  std::int64_t extent = 0, start = 0, step = 1;
  Value base;
};
/// An integer tile whose elements are evenly spaced, whatever dimensions of extent 1 it has. Sums
/// of bases go where the builder stands.
std::optional<IntRamp> iota_of(Builder& b, Value v);

/// first + step * i, of f32.
struct Ramp {
  std::int64_t extent = 0;
  Value first, step;
};
std::optional<Ramp> ramp_of(const Kernel& k, Value v);
Value make_ramp(Builder& b, const Ramp& r);

/// The number of a constant, or of a tile of it.
std::optional<double> number_of(const Kernel& k, Value v);

}  // namespace tegula::ir
