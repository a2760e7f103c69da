// Shapes, views and ownership of tensors. tensor_copy.cpp has copies, tensor_fill.cpp values.
#include "tegula/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/storage.h"
#include "runtime/strided.h"
#include "support/errors.h"

namespace tegula {
namespace {

/// Returns the number of elements. Throws for negative extents and for more bytes than an address
/// can count.
std::int64_t count_elements(const Dims& shape, DType dtype, Loc at) {
  std::int64_t count = 1;
  bool overflow = false;
  for (std::int64_t extent : shape) {
    if (extent < 0) fail(ErrorId::negative_extent, at, {}, shape.str());
    if (extent == 0) return 0;
    overflow |= __builtin_mul_overflow(count, extent, &count);
  }
  std::int64_t bytes = 0;
  if (overflow || __builtin_mul_overflow(count, std::int64_t{size_bytes(dtype)}, &bytes))
    fail(ErrorId::too_many_bytes, at, {}, shape.str(), name(dtype));
  return count;
}

}  // namespace

void Dims::too_many(std::size_t count, Loc at) {
  fail(ErrorId::too_many_dims, at, {}, count, +kMaxRank);
}

std::string Dims::str() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

Tensor Tensor::empty(const Dims& shape, DType dtype, Device device, Loc at) {
  const std::int64_t count = count_elements(shape, dtype, at);
  std::shared_ptr<void> memory =
      runtime::allocate(static_cast<std::size_t>(count) * size_bytes(dtype), device, at);
  void* data = memory.get();
  return borrow(data, shape, dtype, device, {}, std::move(memory), at);
}

namespace {

/// Replaces the stride of 1 that other libraries give dimensions of extent 1. If another dimension
/// is contiguous, the unit dimension could be mistaken for it, and TMA requires strides of
/// multiples of 16 bytes even for extents of 1.
Dims without_idle_ones(const Dims& shape, Dims strides) {
  std::int64_t span = 0;
  bool has_contiguous = false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] <= 1) continue;
    span = std::max(span, std::abs(strides[d]) * shape[d]);
    has_contiguous = has_contiguous || strides[d] == 1;
  }
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (has_contiguous && shape[d] == 1 && strides[d] == 1) strides[d] = span;
  return strides;
}

}  // namespace

Tensor Tensor::borrow(void* data, const Dims& shape, DType dtype, Device device,
                      const Dims& strides, std::shared_ptr<void> owner, Loc at) {
  Tensor t;
  t.numel_ = count_elements(shape, dtype, at);
  if (!strides.empty() && strides.size() != shape.size())
    fail(ErrorId::strides_given, at, {}, strides.str(), shape.str());
  if (data == nullptr && t.numel_ != 0) fail(ErrorId::null_memory, at, {}, shape.str());
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(size_bytes(dtype)) != 0)
    fail(ErrorId::misaligned_memory, at, {}, name(dtype), size_bytes(dtype));
  t.defined_ = true;
  t.dtype_ = dtype;
  t.device_ = device;
  t.shape_ = shape;
  t.strides_ = strides.empty() ? runtime::row_major(shape) : without_idle_ones(shape, strides);
  t.data_ = data;
  if (device.on_host()) {
    const ByteRange range = t.byte_range();
    owner = runtime::list_borrowed({range.begin, range.end - range.begin}, std::move(owner));
  }
  t.owner_ = std::move(owner);
  return t;
}

Tensor Tensor::with_layout(void* data, const Dims& shape, const Dims& strides) const {
  Tensor t = *this;
  t.shape_ = shape;
  t.strides_ = strides;
  t.numel_ = count_elements(shape, dtype_, {});
  t.data_ = data;
  return t;
}

std::size_t Tensor::checked_dim(int dim, Loc at) const {
  if (dim < -rank() || dim >= rank()) fail(ErrorId::tensor_dim, at, {}, dim, rank());
  return static_cast<std::size_t>(dim < 0 ? dim + rank() : dim);
}

std::int64_t Tensor::size(int dim, Loc at) const { return shape_[checked_dim(dim, at)]; }
std::int64_t Tensor::stride(int dim, Loc at) const { return strides_[checked_dim(dim, at)]; }

bool Tensor::is_contiguous() const {
  if (numel_ == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t i = shape_.size(); i-- > 0;) {
    if (shape_[i] == 1) continue;
    if (strides_[i] != expected) return false;
    expected *= shape_[i];
  }
  return true;
}

ByteRange Tensor::byte_range() const {
  const auto first = reinterpret_cast<std::uintptr_t>(data_);
  if (numel_ == 0) return {first, first};
  std::int64_t low = 0, high = 0;
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    const std::int64_t reach = (shape_[i] - 1) * strides_[i];
    (reach < 0 ? low : high) += reach;
  }
  const std::int64_t bytes = size_bytes(dtype_);
  return {first + static_cast<std::uintptr_t>(low * bytes),
          first + static_cast<std::uintptr_t>((high + 1) * bytes)};
}

std::string Tensor::str() const {
  if (!defined_) return "undefined tensor";
  const std::string strides = is_contiguous() ? "" : " strides " + strides_.str();
  return fmt::format("{}{}{} on {}", name(dtype_), shape_.str(), strides, device_.str());
}

void Tensor::require_type(DType wanted, Loc at) const {
  if (dtype_ != wanted || !defined_)
    fail(ErrorId::tensor_type, at, {}, str(), name(wanted), name(wanted));
}

void Tensor::require_host_type(DType wanted, Loc at) const {
  require_type(wanted, at);
  if (!device_.on_host()) fail(ErrorId::not_on_host, at, {}, str());
}

namespace {
char* advance(void* data, std::int64_t elements, DType dtype) {
  return static_cast<char*>(data) + elements * size_bytes(dtype);
}
}  // namespace

Tensor Tensor::slice(int dim, std::int64_t begin, std::int64_t end, std::int64_t step,
                     Loc at) const {
  const std::size_t d = checked_dim(dim, at);
  const std::int64_t extent = shape_[d];
  if (step == 0) fail(ErrorId::slice_step, at, {});
  std::int64_t taken = 0;
  if (step > 0 && end > begin) taken = (end - begin - 1) / step + 1;
  if (step < 0 && end < begin) taken = (begin - end - 1) / -step + 1;
  const bool inside =
      begin >= 0 && begin <= extent && end >= -1 && end <= extent && (taken == 0 || begin < extent);
  if (!inside) fail(ErrorId::slice_range, at, {}, begin, end, step, d, str());
  Dims shape = shape_;
  Dims strides = strides_;
  shape[d] = taken;
  strides[d] *= step;
  return with_layout(taken == 0 ? data_ : advance(data_, begin * strides_[d], dtype_), shape,
                     strides);
}

Tensor Tensor::select(int dim, std::int64_t index, Loc at) const {
  const std::size_t d = checked_dim(dim, at);
  if (index < 0 || index >= shape_[d]) fail(ErrorId::select_index, at, {}, index, d, str());
  Dims shape;
  Dims strides;
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    if (i == d) continue;
    shape.push_back(shape_[i]);
    strides.push_back(strides_[i]);
  }
  return with_layout(advance(data_, index * strides_[d], dtype_), shape, strides);
}

Tensor Tensor::permute(const Dims& order, Loc at) const {
  unsigned seen = 0;
  Dims shape;
  Dims strides;
  for (std::int64_t dim : order) {
    const std::size_t d = checked_dim(static_cast<int>(dim), at);
    seen |= 1u << d;
    shape.push_back(shape_[d]);
    strides.push_back(strides_[d]);
  }
  if (order.size() != shape_.size() || seen != (1u << shape_.size()) - 1)
    fail(ErrorId::dim_order, at, {}, order.str(), rank(), str());
  return with_layout(data_, shape, strides);
}

Tensor Tensor::transpose(int a, int b, Loc at) const {
  Dims order;
  for (int i = 0; i < rank(); ++i) order.push_back(i);
  std::swap(order[checked_dim(a, at)], order[checked_dim(b, at)]);
  return permute(order, at);
}

Tensor Tensor::flip(int dim, Loc at) const {
  const std::size_t d = checked_dim(dim, at);
  return shape_[d] == 0 ? *this : slice(dim, shape_[d] - 1, -1, -1, at);
}

Tensor Tensor::reshape(const Dims& shape, Loc at) const {
  Dims full = shape;
  int open = -1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) continue;
    if (open >= 0) fail(ErrorId::open_extents, at, {}, shape.str());
    open = static_cast<int>(i);
    full[i] = 1;
  }
  const std::int64_t known = count_elements(full, dtype_, at);
  if (open >= 0 && known != 0) full[static_cast<std::size_t>(open)] = numel_ / known;
  if (count_elements(full, dtype_, at) != numel_)
    fail(ErrorId::reshape_count, at, {}, str(), shape.str());
  if (!is_contiguous()) fail(ErrorId::reshape_strided, at, {}, str());
  return with_layout(data_, full, runtime::row_major(full));
}

Tensor Tensor::with_rank(int rank) const {
  const auto added = static_cast<std::size_t>(std::max(0, rank - this->rank()));
  Dims shape = Dims::filled(added, 1), strides = Dims::filled(added, 0);
  for (const std::int64_t extent : shape_) shape.push_back(extent);
  for (const std::int64_t stride : strides_) strides.push_back(stride);
  return with_layout(data_, shape, strides);
}

Tensor Tensor::broadcast_to(const Dims& shape, Loc at) const {
  const std::size_t added = shape.size() - std::min(shape.size(), shape_.size());
  Dims strides = Dims::filled(shape.size(), 0);
  bool fits = shape.size() >= shape_.size();
  for (std::size_t i = 0; fits && i < shape_.size(); ++i) {
    if (shape_[i] == shape[i + added])
      strides[i + added] = strides_[i];
    else
      fits = shape_[i] == 1;
  }
  if (!fits) fail(ErrorId::broadcast_shape, at, {}, str(), shape.str());
  return with_layout(data_, shape, strides);
}

std::optional<std::int64_t> Tensor::red_zone_damage() const {
  if (!device_.on_host() || numel_ == 0) return std::nullopt;
  const auto found = runtime::find_host_allocation(byte_range().begin);
  return found ? runtime::red_zone_damage(*found) : std::nullopt;
}

}  // namespace tegula
