#include "kernels/matmul/operands.h"

#include <map>

#include "kernels/scratch.h"
#include "tegula/tegula.h"

namespace tegula::detail {
namespace {

constexpr std::int64_t kGranule = 16, kLine = 128;

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

constexpr int kRows = 32, kColumns = 64;

/// Tiles that cover a tensor of three dimensions.
Tile tiles_of(const View& v) {
  return v.dim(0) * ((v.dim(1) + (kRows - 1)) / kRows) * ((v.dim(2) + (kColumns - 1)) / kColumns);
}

/// Tile `number` of Y = X.
template <class T>
void copy_tile(const In<T, 3>& X, Out<T, 3>& Y, const Tile& number) {
  const Tile across = (Y.dim(2) + (kColumns - 1)) / kColumns,
             down = (Y.dim(1) + (kRows - 1)) / kRows, row = number / across;
  const Index b = slice(row / down, 1), m = slice(row % down * kRows, kRows),
              n = slice(number % across * kColumns, kColumns);
  Y(b, m, n) = X(b, m, n);
}

template <class T>
auto copy_one() {
  return kernel("matmul_operand", [](In<T, 3> X, Out<T, 3> Y) {
    for (auto [b, m, n] : grid(Y, 1, kRows, kColumns)) Y(b, m, n) = X(b, m, n);
  });
}

/// In one launch, which is most of what copies of small operands take.
template <class T>
auto copy_two() {
  return kernel("matmul_operands", [](In<T, 3> X, Out<T, 3> Y, In<T, 3> V, Out<T, 3> W) {
    const Tile first = tiles_of(Y);
    for (auto p : grid(Space({first + tiles_of(W)}), 1))
      if_(
          p.first() < first, [&] { copy_tile(X, Y, p.first()); },
          [&] { copy_tile(V, W, p.first() - first); });
  });
}

/// Copies of one type, of any strides.
template <class T>
void copy_all(const Stream& stream, const std::vector<OperandCopy>& copies) {
  static const auto one = copy_one<T>();
  static const auto two = copy_two<T>();
  std::size_t i = 0;
  for (; i + 1 < copies.size(); i += 2)
    two(stream, copies[i].from, copies[i].to, copies[i + 1].from, copies[i + 1].to);
  if (i < copies.size()) one(stream, copies[i].from, copies[i].to);
}

/// Of 8 bits, whatever they mean.
Tensor as_bytes(const Tensor& t) {
  return Tensor::borrow(t.data(), t.shape(), DType::u8, t.device(), t.strides());
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

bool has_whole_lines(const Tensor& t, int k_dim) {
  if (needs_copy(t, k_dim)) return true;
  const std::int64_t pitch = t.stride(-1) == 1 ? t.stride(-2) : t.stride(-1);
  return pitch * size_bytes(t.dtype()) % kLine == 0;
}

Dims shape_of_copy(const Tensor& t, int k_dim) {
  const int inner = contiguous_dim(t, k_dim), outer = inner == -1 ? -2 : -1;
  const std::int64_t line = kLine / size_bytes(t.dtype());
  return {t.rank() == 3 ? t.size(0) : 1, t.size(outer), (t.size(inner) + line - 1) / line * line};
}

OperandCopy copy_of(const Tensor& t, int k_dim, const Tensor& memory) {
  const int inner = contiguous_dim(t, k_dim);
  Tensor view = memory.slice(-1, 0, t.size(inner));
  if (inner == -2) view = view.transpose(-1, -2);
  return {with_batch(t), view};
}

void copy_operands(const Stream& stream, std::vector<OperandCopy> copies) {
  if (copies.empty()) return;
  switch (copies.front().from.dtype()) {
    case DType::bf16:
      return copy_all<bf16>(stream, copies);
    case DType::f16:
      return copy_all<f16>(stream, copies);
    case DType::f32:
      return copy_all<f32>(stream, copies);
    default:
      for (OperandCopy& c : copies) c = {as_bytes(c.from), as_bytes(c.to)};
      return copy_all<u8>(stream, copies);
  }
}

}  // namespace tegula::detail
