#pragma once
// Evenly spaced numbers along a dimension: integer positions, or floats as `fma(arange, step,
// first)`. The values in a thread's registers then differ by constants, and each costs one fma.
#include <cstdint>
#include <optional>

#include "ir/builder.h"

namespace tegula::ir {

/// base + start + step * i for i below `extent`; a missing base is 0.
struct IntRamp {
  std::int64_t extent = 0, start = 0, step = 1;
  Value base;
};
/// Returns the ramp of an integer tile whose elements are evenly spaced, ignoring dimensions of
/// extent 1. Sums of bases are created at the builder's insertion point.
std::optional<IntRamp> iota_of(Builder& b, Value v);

/// first + step * i, in f32, for i below `extent`.
struct Ramp {
  std::int64_t extent = 0;
  Value first, step;
};
std::optional<Ramp> ramp_of(const Kernel& k, Value v);
Value make_ramp(Builder& b, const Ramp& r);

/// Returns the number of a constant, or of a constant tile; nothing for other values.
std::optional<double> number_of(const Kernel& k, Value v);

}  // namespace tegula::ir
