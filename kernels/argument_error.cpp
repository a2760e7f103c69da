#include "kernels/argument_error.h"

#include <fmt/format.h>

namespace tegula::kernels {

void require_tensor(const char* kernel, const char* name, const Tensor& tensor, DType dtype,
                    const Dims& shape) {
  if (tensor.defined() && tensor.dtype() == dtype && tensor.shape() == shape) return;
  throw_argument_error(ErrorId::kernel_argument, kernel, name,
                       tensor.defined() ? tensor.str() : "left out",
                       fmt::format("{}{}", tegula::name(dtype), shape.str()));
}

void require_optional(const char* kernel, const char* name, const Tensor& tensor, DType dtype,
                      const Dims& shape) {
  if (tensor.defined()) require_tensor(kernel, name, tensor, dtype, shape);
}

void require_rank(const char* kernel, const char* name, const Tensor& tensor, int rank) {
  if (tensor.rank() == rank) return;
  throw_argument_error(ErrorId::kernel_argument, kernel, name,
                       tensor.defined() ? tensor.str() : "left out",
                       fmt::format("a tensor of {} dimensions", rank));
}

void require_table(const char* kernel, const char* name, const Tensor& tensor, DType dtype,
                   int rank) {
  if (tensor.defined() && tensor.dtype() == dtype && tensor.rank() == rank) return;
  throw_argument_error(
      ErrorId::kernel_argument, kernel, name, tensor.defined() ? tensor.str() : "left out",
      fmt::format("{} of {} dimension{}", tegula::name(dtype), rank, rank == 1 ? "" : "s"));
}

}  // namespace tegula::kernels
