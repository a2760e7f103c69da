#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Matrix products in the log semiring, for forward algorithms and mixture models.
namespace tegula::kernels {

/// C[i, j] = log(sum over k of e^(A[i, k] + B[k, j])): f32, A [m, k], B [k, n], C [m, n]. Absolute
/// error at most 1e-3: exponentials relative to the maxima of A's rows and B's columns are
/// multiplied by tensor cores in f16, and tiles whose sums are too small for that are recomputed
/// term by term in f32, at a cost of k exponentials per element. -inf is a probability of 0, also
/// for whole rows; inf and NaN follow the formula. k = 0 gives -inf. Throws CompileError
/// (T1662) for invalid arguments.
void log_matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
                Loc at = std::source_location::current());

}  // namespace tegula::kernels
