#pragma once
#include <cstddef>

#include "tegula/value.h"

/// Elementwise functions. Small floats (f16, bf16) are computed in f32 and rounded once per call.
namespace tegula {

/// Returns the value converted to T: floats to integers truncate and saturate, floats to narrower
/// floats round to nearest even, integers wrap.
template <Element T>
Tile cast(const Arg& x);
Tile cast(const Arg& x, DType to);
/// Returns the same bits as another type of the same width.
template <Element T>
Tile bitcast(const Arg& x);
Tile bitcast(const Arg& x, DType to);

/// Returns `a` where the condition is true, else `b`.
Tile where(const Arg& condition, const Arg& a, const Arg& b);
/// Return the smaller or the larger operand; if one is NaN, the other one.
Tile min(const Arg& a, const Arg& b);
Tile max(const Arg& a, const Arg& b);
Tile clamp(const Arg& x, const Arg& low, const Arg& high);
Tile abs(const Arg& x);
/// a * b + c, rounded once; for bf16 it is rounded to f32 first.
Tile fma(const Arg& a, const Arg& b, const Arg& c);
/// x * by for floats, fast if `by` is 1 in most rows, like the factor by which online softmax
/// rescales its accumulator: a warp whose factors are all 1 skips the multiplication (Dao et al.
/// 2025, FlashAttention-4).
Tile conditional_rescale(const Arg& x, const Arg& by);
/// Quotient of an integer by a positive one, rounded up; for 32 and 64 bits a + b - 1 must not
/// overflow.
Tile cdiv(const Arg& a, const Arg& b);
/// Returns the upper half of the double-width product.
Tile mulhi(const Arg& a, const Arg& b);
Tile popc(const Arg& x);
Tile clz(const Arg& x);
/// The f64 functions are composed of correctly rounded operations, within the bounds of
/// docs/math-bounds.md; some f32 functions are approximating instructions. See also elementary.h.
Tile exp(const Arg& x);
Tile exp2(const Arg& x);
Tile log(const Arg& x);
Tile log2(const Arg& x);
Tile sqrt(const Arg& x);
Tile rsqrt(const Arg& x);
Tile rcp(const Arg& x);
Tile sin(const Arg& x);
Tile cos(const Arg& x);
Tile tanh(const Arg& x);
Tile erf(const Arg& x);
Tile floor(const Arg& x);
Tile ceil(const Arg& x);
/// Rounds to the nearest integer, ties to even.
Tile round(const Arg& x);
Tile trunc(const Arg& x);
/// The hardware's fast versions: the reciprocal is within 1 ulp and flushes subnormals to 0 (a
/// correctly rounded one calls a function for subnormals, and an epilogue full of calls runs out of
/// registers); tanh is within 2^-11 relative, the others within 2^-20.9 in [-pi, pi]. The last
/// three do not support f64: CompileError.
Tile rcp_approx(const Arg& x);
Tile tanh_approx(const Arg& x);
Tile sin_approx(const Arg& x);
Tile cos_approx(const Arg& x);

/// x^y as exp2(y log2 |x|), negated for x below 0 or -0 and odd integer y; NaN for finite x below 0
/// and y that is not an integer. x^0 and 1^y are 1 for all x and y, as in C.
Tile pow(const Arg& x, const Arg& y);
/// 1 / (1 + e^-x), within 2^-21 relative; subnormal results are 0.
Tile sigmoid(const Arg& x);
/// x sigmoid(x); NaN for -inf.
Tile silu(const Arg& x);
/// x (1 + erf(x / sqrt 2)) / 2, within 2^-21.5 max(1, |x|), and relative 2^-20 where x > -1, 2^-11
/// where x > -6; 0 for -inf.
Tile gelu(const Arg& x);
/// GELU's other definition, x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 (Hendrycks and
/// Gimpel, arXiv:1606.08415; PyTorch's approximate="tanh"), by tanh_approx: within 2^-11.9 |x|.
/// Tensor cores wait for half as many f32 operations as in `gelu`. NaN for -inf.
Tile gelu_tanh_approx(const Arg& x);
/// log(1 + e^x), without overflow; where e^x is small, as accurate as e^x.
Tile softplus(const Arg& x);
Tile isnan(const Arg& x);
Tile isinf(const Arg& x);

namespace detail {
/// Marks the ops that are recorded during its lifetime.
class ReassocScope {
 public:
  ReassocScope();
  ~ReassocScope();
  ReassocScope(const ReassocScope&) = delete;
  ReassocScope& operator=(const ReassocScope&) = delete;

 private:
  std::size_t first_;
};
}  // namespace detail

/// Returns the result of `body`, whose float sums, products and conversions may be rounded at other
/// places than written: reordered, distributed, split, with divisions by rows and columns as
/// multiplications. A term that rows or columns of a tile have in common is then computed once for
/// each of them, for instance in `slope * cast<f32>(kv - q) + s`. Errors are those of sums of the
/// same terms: about 2^-23 of the largest. Valid for numbers that neither overflow nor underflow in
/// another order.
template <class Body>
auto reassociable(const Body& body) {
  const detail::ReassocScope scope;
  return body();
}

template <Element T>
Tile cast(const Arg& x) {
  return cast(x, dtype_of<T>);
}
template <Element T>
Tile bitcast(const Arg& x) {
  return bitcast(x, dtype_of<T>);
}

}  // namespace tegula
