#pragma once
// Errors for calls whose arguments a library kernel does not support.
#include "support/errors.h"
#include "tegula/kernels/call_place.h"
#include "tegula/tensor.h"

namespace tegula::kernels {

/// Throws `mistake`, a row of T16 in support/errors.def, at the line of the call.
template <class... T>
[[noreturn]] void throw_argument_error(ErrorId mistake, const T&... arguments) {
  fail(mistake, detail::CallPlace::current(), {}, arguments...);
}

/// Throws T1662 unless the tensor has this type and shape.
void require_tensor(const char* kernel, const char* name, const Tensor& tensor, DType dtype,
                    const Dims& shape);
/// The same, but a tensor that is not `defined()` is accepted.
void require_optional(const char* kernel, const char* name, const Tensor& tensor, DType dtype,
                      const Dims& shape);
/// Throws T1662 unless the tensor has this number of dimensions.
void require_rank(const char* kernel, const char* name, const Tensor& tensor, int rank);
/// Throws T1662 unless the tensor has this type and number of dimensions.
void require_table(const char* kernel, const char* name, const Tensor& tensor, DType dtype,
                   int rank);

}  // namespace tegula::kernels
