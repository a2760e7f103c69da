#pragma once
#include <cstddef>

#include "tegula/value.h"

/// Elementwise functions. Small floats (f16, bf16) are computed in f32 and rounded once a call.
namespace tegula {

/// The value converted to T: floats to integers truncate and saturate, floats to narrower floats
/// round to nearest even, integers wrap.
template <Element T>
Tile cast(const Arg& x);
Tile cast(const Arg& x, DType to);
/// The same bits as another type of the same width.
template <Element T>
Tile bitcast(const Arg& x);
Tile bitcast(const Arg& x, DType to);

/// `a` where the condition holds, else `b`.
Tile where(const Arg& condition, const Arg& a, const Arg& b);
/// The smaller and the larger one; a NaN loses.
Tile min(const Arg& a, const Arg& b);
Tile max(const Arg& a, const Arg& b);
Tile clamp(const Arg& x, const Arg& low, const Arg& high);
Tile abs(const Arg& x);
/// a * b + c, rounded once; of bf16 rounded to f32 first.
Tile fma(const Arg& a, const Arg& b, const Arg& c);
/// x * by, of floats, where `by` is 1 for most rows, like the factor by which online softmax
/// rescales its accumulator: a warp whose factors are all 1 skips the multiplication (Dao et al.
/// 2025, FlashAttention-4).
Tile conditional_rescale(const Arg& x, const Arg& by);
/// Quotient rounded up, of an integer by one above 0; of 32 and 64 bits a + b - 1 must not
/// overflow.
Tile cdiv(const Arg& a, const Arg& b);
/// Upper half of the double-width product.
Tile mulhi(const Arg& a, const Arg& b);
Tile popc(const Arg& x);
Tile clz(const Arg& x);
/// The functions of f64 are composed of correctly rounded operations, within the bounds of
/// docs/math-bounds.md; some of f32 are instructions that approximate. elementary.h has more.
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
/// To the nearest integer, ties to even.
Tile round(const Arg& x);
Tile trunc(const Arg& x);
/// The hardware's fast versions: the reciprocal within 1 ulp, subnormals 0 (a correctly rounded one
/// is a function call where it is subnormal, and an epilogue full of them runs out of registers);
/// tanh within 2^-11 relative, the others within 2^-20.9 in [-pi, pi]. The last three have no
/// f64: CompileError.
Tile rcp_approx(const Arg& x);
Tile tanh_approx(const Arg& x);
Tile sin_approx(const Arg& x);
Tile cos_approx(const Arg& x);

/// x^y as exp2(y log2 |x|), negated for x below 0 or -0 and odd integer y; NaN for finite x below 0
/// and y that is no integer. x^0 and 1^y are 1 for all x and y, as in C.
Tile pow(const Arg& x, const Arg& y);
/// 1 / (1 + e^-x), within 2^-21 relative; what is subnormal is 0.
Tile sigmoid(const Arg& x);
/// x sigmoid(x); NaN of -inf.
Tile silu(const Arg& x);
/// x (1 + erf(x / sqrt 2)) / 2, within 2^-21.5 max(1, |x|), and relative 2^-20 where x > -1, 2^-11
/// where x > -6; 0 of -inf.
Tile gelu(const Arg& x);
/// GELU's other definition, x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 (Hendrycks and
/// Gimpel, arXiv:1606.08415; PyTorch's approximate="tanh"), by tanh_approx: within 2^-11.9 |x|. It
/// has half as many f32 operations, which tensor cores wait for, as `gelu`. NaN of -inf.
Tile gelu_tanh_approx(const Arg& x);
/// log(1 + e^x), without overflow, as accurate as e^x where that is small.
Tile softplus(const Arg& x);
Tile isnan(const Arg& x);
Tile isinf(const Arg& x);

namespace detail {
/// Marks what is recorded while it lives.
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

/// The result of `body`, whose sums, products and conversions of floats may be rounded in other
/// places than written: reordered, distributed, split, with divisions by rows and columns as
/// multiplications. A term that rows or columns of a tile have in common is then computed once for
/// each of them, for instance in `slope * cast<f32>(kv - q) + s`. Errors are those of sums of the
/// same terms: about 2^-23 of the largest. Holds for numbers that neither overflow nor underflow in
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
