#include "kernels/matmul/operands.h"

#include <map>

#include "kernels/scratch.h"
#include "tegula/tegula.h"

namespace tegula::detail {
namespace {

constexpr std::int64_t kGranule = 16;

bool is_aligned(std::int64_t stride, DType dtype) {
  return stride * size_bytes(dtype) % kGranule == 0;
}

/// One of the last two dimensions is contiguous, and what the others step over is a multiple of 16
/// bytes.
bool tma_takes(const Tensor& t) {
  if (reinterpret_cast<std::uintptr_t>(t.data()) % kGranule != 0) return false;
  const int last = t.rank() - 1;
  const bool has_contiguous =
      t.stride(last) == 1 || t.stride(last - 1) == 1 || t.size(last) <= 1 || t.size(last - 1) <= 1;
  bool aligned = has_contiguous;
  for (int d = 0; d <= last; ++d)
    aligned = aligned && (t.size(d) <= 1 || t.stride(d) == 1 || is_aligned(t.stride(d), t.dtype()));
  return aligned;
}

/// Where the copy is contiguous: along k, or as the operand is, where tensor cores take both.
int contiguous_dim(const Tensor& t, int k_dim) {
  const int other = k_dim == -1 ? -2 : -1;
  return size_bytes(t.dtype()) == 2 && t.stride(other) == 1 ? other : k_dim;
}

/// Y = X, of any strides.
template <class T>
auto copy_kernel() {
  return kernel("matmul_operand", [](In<T, 3> X, Out<T, 3> Y) {
    for (auto [b, m, n] : grid(Y, 1, 32, 64)) Y(b, m, n) = X(b, m, n);
  });
}

void copy(const Stream& stream, const Tensor& from, const Tensor& to) {
  static const auto k16 = copy_kernel<bf16>();
  static const auto kHalf = copy_kernel<f16>();
  static const auto k8 = copy_kernel<u8>();
  static const auto k32 = copy_kernel<f32>();
  switch (from.dtype()) {
    case DType::bf16:
      return k16(stream, from, to);
    case DType::f16:
      return kHalf(stream, from, to);
    case DType::f32:
      return k32(stream, from, to);
    default:
      break;
  }
  // Of 8 bits, whatever they mean.
  const auto bytes = [](const Tensor& t) {
    return Tensor::borrow(t.data(), t.shape(), DType::u8, t.device(), t.strides());
  };
  k8(stream, bytes(from), bytes(to));
}

Tensor with_batch(const Tensor& t) {
  if (t.rank() == 3) return t;
  return Tensor::borrow(t.data(), {1, t.size(0), t.size(1)}, t.dtype(), t.device(),
                        {0, t.stride(0), t.stride(1)});
}

}  // namespace

bool needs_copy(const Tensor& t, int k_dim) {
  if (t.numel() == 0) return false;
  if (!tma_takes(t)) return true;
  return size_bytes(t.dtype()) != 2 && t.stride(k_dim) != 1 && t.size(k_dim) > 1;
}

Dims shape_of_copy(const Tensor& t, int k_dim) {
  const int inner = contiguous_dim(t, k_dim), outer = inner == -1 ? -2 : -1;
  const std::int64_t granule = kGranule / size_bytes(t.dtype());
  return {t.rank() == 3 ? t.size(0) : 1, t.size(outer),
          (t.size(inner) + granule - 1) / granule * granule};
}

Tensor copy_operand(const Stream& stream, const Tensor& t, int k_dim, const Tensor& memory) {
  const int inner = contiguous_dim(t, k_dim);
  Tensor view = memory.slice(-1, 0, t.size(inner));
  if (inner == -2) view = view.transpose(-1, -2);
  copy(stream, with_batch(t), view);
  return t.rank() == 3 ? view : view.select(0, 0);
}

}  // namespace tegula::detail
