// Which tensors a kernel cannot read as they lie, and their copies.
#include "tegula/kernels/copy.h"
#include "tegula/quotients.h"
#include "tegula/scratch.h"

namespace tegula {
namespace {

constexpr std::int64_t kGranule = 16, kLine = 128;

int other_of(int dim) { return dim == -1 ? -2 : -1; }

/// Where the copy is contiguous.
int contiguous_dim(const PackedOperand& o) {
  const int other = other_of(o.dim);
  return o.packing == Packing::ForTma && o.tensor.stride(other) == 1 ? other : o.dim;
}

/// Of a row-major tensor that has room for the copy.
Dims shape_of_copy(const PackedOperand& o) {
  const Tensor& t = o.tensor;
  const int inner = contiguous_dim(o);
  const std::int64_t line = kLine / size_bytes(t.dtype());
  return {t.rank() == 3 ? t.size(0) : 1, t.size(other_of(inner)), round_up(t.size(inner), line)};
}

/// The part of such a tensor that is as large as the operand.
Tensor place_of_copy(const PackedOperand& o, const Tensor& memory) {
  const int inner = contiguous_dim(o);
  Tensor place = memory.slice(-1, 0, o.tensor.size(inner));
  if (inner == -2) place = place.transpose(-1, -2);
  return o.tensor.rank() == 3 ? place : place.select(0, 0);
}

}  // namespace

bool tma_takes(const Tensor& t) {
  if (reinterpret_cast<std::uintptr_t>(t.data()) % kGranule != 0) return false;
  const int last = t.rank() - 1;
  bool fits =
      t.stride(last) == 1 || t.stride(last - 1) == 1 || t.size(last) <= 1 || t.size(last - 1) <= 1;
  for (int d = 0; d <= last; ++d)
    fits = fits && (t.size(d) <= 1 || t.stride(d) == 1 ||
                    (t.stride(d) >= 0 && t.stride(d) * size_bytes(t.dtype()) % kGranule == 0));
  return fits;
}

bool PackedOperand::needs_copy() const {
  if (packing == Packing::Any || tensor.numel() == 0) return false;
  if (!tma_takes(tensor)) return true;
  return packing == Packing::AlongDim && tensor.stride(dim) != 1 && tensor.size(dim) > 1;
}

bool PackedOperand::has_whole_lines() const {
  if (needs_copy()) return true;
  const std::int64_t pitch = tensor.stride(-1) == 1 ? tensor.stride(-2) : tensor.stride(-1);
  return pitch * size_bytes(tensor.dtype()) % kLine == 0;
}

PackedTensors::PackedTensors(const Stream& stream, std::initializer_list<PackedOperand> operands,
                             const Dims& further, DType type_of_further, int counters) {
  const StreamScope one_call;
  if (counters > 0) counters_ = Scratch::counters(stream, static_cast<std::size_t>(counters));
  std::size_t bytes = further.empty() ? 0 : Scratch::bytes_of(further, type_of_further), i = 0;
  std::vector<std::size_t> copied;
  for (const PackedOperand& o : operands) {
    of_[i] = &o.tensor;
    if (o.needs_copy()) {
      bytes += Scratch::bytes_of(shape_of_copy(o), o.tensor.dtype());
      copied.push_back(i);
    }
    ++i;
  }
  if (further.empty() && copied.empty()) return;
  Scratch scratch(stream, of_[0]->device(), bytes);
  if (!further.empty()) further_ = scratch.take(further, type_of_further);
  std::vector<TensorCopy> copies;
  copies_.reserve(copied.size());  // others point into it
  for (const std::size_t at : copied) {
    const PackedOperand& o = operands.begin()[at];
    const Tensor memory = scratch.take(shape_of_copy(o), o.tensor.dtype());
    of_[at] = &copies_.emplace_back(place_of_copy(o, memory));
    copies.push_back({o.tensor, *of_[at]});
  }
  copy(stream, copies);
}

}  // namespace tegula
