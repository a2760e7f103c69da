#pragma once
// Argument check for functions on router logits.
#include <string>

#include "kernels/argument_error.h"

namespace tegula::kernels {

/// Throws T1673 unless the tensor has this shape and type and is on the device of `reference`.
inline void check_moe_tensor(const char* what, const Tensor& t, const Dims& shape, DType dtype,
                             const Tensor& reference) {
  if (t.defined() && t.shape() == shape && t.dtype() == dtype && t.device() == reference.device())
    return;
  throw_argument_error(ErrorId::moe_tensor, what, t.defined() ? t.str() : "left out",
                       std::string(name(dtype)) + shape.str(), reference.str());
}

}  // namespace tegula::kernels
