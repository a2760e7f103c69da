#pragma once
#include <functional>

#include "tegula/tensor.h"

/// Compilation before the first call.
namespace tegula {

/// Runs `calls` without launching anything: the kernels that they would launch, the user's and the
/// library's, are compiled, or found in a bundle or the disk cache, and loaded. Afterwards the same
/// calls, with the same shapes, types and alignment, compile nothing, even while a stream records a
/// graph. Tensors are not read and may have no memory (`described`).
///
///     const Tensor a = described({4096, 4096}, DType::bf16, device), b = a, c = a;
///     prepare([&] { matmul(a, b, c); });
///
/// Throws what the calls throw and, if TEGULA_JIT=deny forbids compilation, the error that names
/// the kernel. Results that the host reads in `calls` are unspecified.
void prepare(const std::function<void()>& calls);

/// Returns a tensor without memory, aligned like a new one, for prepare() only. Default strides:
/// row-major.
Tensor described(const Dims& shape, DType dtype, Device device, const Dims& strides = {});

}  // namespace tegula
