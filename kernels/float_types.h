#pragma once
// Dispatch for kernels whose element type is known at run time.
#include "kernels/argument_error.h"
#include "tegula/tensor.h"

namespace tegula::kernels {

/// Calls `run` with a value of the host type of `dtype`: bf16, f16 or f32. Throws for other types.
template <class Run>
void for_float(const char* kernel, DType dtype, const Run& run) {
  if (dtype == DType::bf16) return run(bf16());
  if (dtype == DType::f16) return run(f16());
  if (dtype == DType::f32) return run(f32());
  throw_argument_error(ErrorId::row_type, kernel, name(dtype));
}

}  // namespace tegula::kernels
