#pragma once
#include "tegula/tile_ops.h"

/// Folds composed of other folds: bits, means and variances, and sums of exponentials. Absent
/// elements are skipped.
namespace tegula {

/// Bitwise exclusive or, or, and of integers, or i1, along a dimension; without elements 0, 0 and
/// all ones.
Tile xor_sum(const Arg& t, Axis axis);
Tile bit_or(const Arg& t, Axis axis);
Tile bit_and(const Arg& t, Axis axis);

/// log of the sum of e^x, without overflow: inf if an element is inf, -inf if no element is present
/// or all are -inf, NaN if one is NaN.
Tile logsumexp(const Arg& t, Axis axis);
/// Sum of the present elements over their number; NaN if there are none. f16 and bf16 are computed
/// in f32 and rounded at the end. Integers are rejected: CompileError.
Tile mean(const Arg& t, Axis axis);

/// Number of elements, mean, and sum of squared differences from it; f32 (f64 for f64). Parts
/// of a streamed row are merged without cancellation (Welford 1962; Chan, Golub and LeVeque
/// 1979).
struct Moments {
  Tile count, mean, m2;  ///< shaped like a fold along the axis
  /// m2 / (count - correction); NaN where count <= correction.
  Tile var(int correction = 0) const;
};
/// Returns the moments of the present elements along a dimension; without any, count 0, mean NaN.
Moments moments(const Arg& t, Axis axis);
/// Returns the moments of both together; a part without elements is ignored.
Moments merge(const Moments& a, const Moments& b);
/// Returns moments(t, axis).var(correction), in the type of `t`.
Tile var(const Arg& t, Axis axis, int correction = 0);

}  // namespace tegula
