#pragma once
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Products in the semiring of logarithms, as forward algorithms and mixtures take them.
namespace tegula {

/// C[i, j] = log(sum over k of e^(A[i, k] + B[k, j])): f32, A [m, k], B [k, n], C [m, n]. Absolute
/// error at most 1e-3: exponentials below the maxima of A's rows and B's columns are multiplied by
/// tensor cores as f16, and tiles whose sums are too small for that are computed again, term by
/// term in f32, which takes as long as k exponentials an element. -inf is a probability of 0, also
/// for whole rows; inf and NaN are as in the formula. Without k, -inf. Throws CompileError for invalid
/// arguments.
void log_matmul(const Stream& stream, const Tensor& A, const Tensor& B, const Tensor& C,
                Loc at = std::source_location::current());

}  // namespace tegula
