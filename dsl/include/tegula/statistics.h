#pragma once
#include "tegula/tile_ops.h"

/// Folds made of other folds: bits, means and variances, and sums of exponentials. Absent elements
/// do not count.
namespace tegula {

/// Bitwise exclusive or, or, and of integers, or i1, along a dimension; of nothing 0, 0 and all
/// ones.
Tile xor_sum(const Arg& t, Axis axis);
Tile bit_or(const Arg& t, Axis axis);
Tile bit_and(const Arg& t, Axis axis);

/// log of the sum of e^x, without overflow: inf where an element is inf, -inf of nothing and of
/// -inf alone, NaN where one is NaN.
Tile logsumexp(const Arg& t, Axis axis);
/// Sum of the elements that are present over their number; NaN of nothing. f16 and bf16 are
/// computed in f32 and rounded at the end. Integers are refused: CompileError.
Tile mean(const Arg& t, Axis axis);

/// Number of elements, mean, and sum of squared differences from it; f32 (f64 of f64). Parts of a
/// row that is streamed are merged, which loses nothing to cancellation (Welford 1962; Chan, Golub
/// and LeVeque 1979).
struct Moments {
  Tile count, mean, m2;
  /// m2 / (count - correction); NaN where count <= correction.
  Tile var(int correction = 0) const;
};
/// The moments of the elements present along a dimension; of nothing count 0 and mean NaN.
Moments moments(const Arg& t, Axis axis);
/// The moments of both together; a part without elements does not count.
Moments merge(const Moments& a, const Moments& b);
/// moments(t, axis).var(correction), in the type of `t`.
Tile var(const Arg& t, Axis axis, int correction = 0);

}  // namespace tegula
