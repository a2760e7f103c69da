#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "tegula/device.h"
#include "tegula/dlpack.h"
#include "tegula/dtype.h"
#include "tegula/location.h"
#include "tegula/stream.h"

namespace tegula {

/// Up to eight integers stored in place: a shape, strides or an index.
class Dims {
 public:
  static constexpr int kMaxRank = 8;

  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<std::int64_t> values,
                 std::source_location at = std::source_location::current()) {
    if (values.size() > kMaxRank) too_many(values.size(), at);
    for (std::int64_t v : values) values_[size_++] = v;
  }
  explicit constexpr Dims(std::span<const std::int64_t> values) {
    if (values.size() > kMaxRank) too_many(values.size());
    for (std::int64_t v : values) values_[size_++] = v;
  }
  /// Returns `count` copies of `value`.
  static constexpr Dims filled(std::size_t count, std::int64_t value) {
    Dims d;
    if (count > kMaxRank) too_many(count);
    for (std::size_t i = 0; i < count; ++i) d.push_back(value);
    return d;
  }

  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr std::int64_t operator[](std::size_t i) const { return values_[i]; }
  constexpr std::int64_t& operator[](std::size_t i) { return values_[i]; }
  constexpr const std::int64_t* begin() const { return values_.data(); }
  constexpr const std::int64_t* end() const { return values_.data() + size_; }
  constexpr const std::int64_t* data() const { return values_.data(); }
  constexpr void push_back(std::int64_t v) {
    if (size_ == kMaxRank) too_many(size_ + 1);
    values_[size_++] = v;
  }
  /// Returns "[2, 3]".
  std::string str() const;

  friend constexpr bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (a.values_[i] != b.values_[i]) return false;
    return true;
  }

 private:
  [[noreturn]] static void too_many(std::size_t count, Loc at = {});
  std::array<std::int64_t, kMaxRank> values_{};
  std::size_t size_ = 0;
};

/// The addresses that a tensor may access: [begin, end). Empty for a tensor without elements.
struct ByteRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  friend constexpr bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// A strided array of elements on a device. Copying a Tensor copies the handle: both refer to the
/// same elements. The memory is shared by all views and freed with the last one; a borrowed tensor
/// frees nothing. Mistakes in shapes and types throw CompileError with the caller's line; failures
/// of the machine throw DeviceError.
class Tensor {
 public:
  /// Creates an undefined tensor: rank 0, no data, `defined()` is false.
  Tensor() = default;

  /// Allocates memory without initialising its elements. On the host every byte is set to 0xff
  /// (NaN, -1), so that a use before a store is noticed, and red zones surround the memory.
  static Tensor empty(const Dims& shape, DType dtype, Device device = Device::best(),
                      Loc at = std::source_location::current());
  static Tensor zeros(const Dims& shape, DType dtype, Device device = Device::best(),
                      Loc at = std::source_location::current());
  /// Sets every element to `value`, rounded to `dtype`, towards zero for an integer type. Throws
  /// CompileError (T1230), as `iota` and `integers` do, if an integer type lacks a value.
  static Tensor full(const Dims& shape, double value, DType dtype, Device device = Device::best(),
                     Loc at = std::source_location::current());
  /// Returns 0, 1, 2, ... in row-major order, rounded to `dtype`.
  static Tensor iota(const Dims& shape, DType dtype, Device device = Device::best(),
                     Loc at = std::source_location::current());

  /// Random elements. The same seed gives the same values on every host, whatever the device;
  /// element i depends on (seed, i) alone. `uniform` and `integers` are over [low, high), also
  /// for float types.
  static Tensor uniform(const Dims& shape, DType dtype, double low, double high, std::uint64_t seed,
                        Device device = Device::best(), Loc at = std::source_location::current());
  static Tensor normal(const Dims& shape, DType dtype, double mean, double deviation,
                       std::uint64_t seed, Device device = Device::best(),
                       Loc at = std::source_location::current());
  static Tensor integers(const Dims& shape, DType dtype, std::int64_t low, std::int64_t high,
                         std::uint64_t seed, Device device = Device::best(),
                         Loc at = std::source_location::current());

  /// Copies host values in row-major order.
  template <Element T>
  static Tensor from(std::span<const T> values, const Dims& shape, Device device = Device::best(),
                     Loc at = std::source_location::current()) {
    return from_host(values.data(), values.size(), shape, dtype_of<T>, device, at);
  }
  template <Element T>
  static Tensor from(const std::vector<T>& values, const Dims& shape,
                     Device device = Device::best(), Loc at = std::source_location::current()) {
    if constexpr (std::is_same_v<T, bool>) {
      const std::unique_ptr<bool[]> bytes(new bool[values.size() + 1]);
      for (std::size_t i = 0; i < values.size(); ++i) bytes[i] = values[i];
      return from_host(bytes.get(), values.size(), shape, DType::i1, device, at);
    } else {
      return from(std::span<const T>(values), shape, device, at);
    }
  }
  /// Returns a vector as a tensor of rank 1.
  template <Element T>
  static Tensor from(const std::vector<T>& values, Device device = Device::best(),
                     Loc at = std::source_location::current()) {
    return from(values, Dims{static_cast<std::int64_t>(values.size())}, device, at);
  }

  /// Wraps foreign memory: `data` is the address of element 0. Strides count elements and may be
  /// negative or zero; none means row-major. The tensor may replace the stride of an extent of 1.
  /// `owner` is kept alive as long as any view.
  static Tensor borrow(void* data, const Dims& shape, DType dtype, Device device,
                       const Dims& strides = {}, std::shared_ptr<void> owner = nullptr,
                       Loc at = std::source_location::current());
  /// Wraps the memory of a DLPack tensor; the description may be freed, the memory must stay valid.
  /// Throws CompileError for types, devices and ranks that Tegula lacks, and for null memory.
  static Tensor borrow(const dlpack::Tensor& tensor, Loc at = std::source_location::current());

  bool defined() const { return defined_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  const Dims& shape() const { return shape_; }
  /// Returns the strides in elements.
  const Dims& strides() const { return strides_; }
  /// Returns the extent of dimension `dim` (-1: the last). Throws CompileError if out of range.
  std::int64_t size(int dim, Loc at = std::source_location::current()) const;
  std::int64_t stride(int dim, Loc at = std::source_location::current()) const;
  std::int64_t numel() const { return numel_; }
  /// Returns the address of element 0; the host may read it only if `device().on_host()`.
  void* data() const { return data_; }
  /// Returns the host address of element 0 as a `T*`. Throws CompileError unless the dtype is T's
  /// and the memory is on the host.
  template <Element T>
  T* data_as(Loc at = std::source_location::current()) const {
    require_host_type(dtype_of<T>, at);
    return static_cast<T*>(data_);
  }
  /// Returns true if row-major without gaps (extents of 1 may have any stride).
  bool is_contiguous() const;
  ByteRange byte_range() const;
  /// Returns "bf16[128, 64] on cuda:0", with the strides if they are not row-major.
  std::string str() const;

  /// Returns elements begin, begin + step, ... before `end` of one dimension. A negative step goes
  /// down to just above `end` (-1 reaches element 0). Negative `dim` counts from the last.
  Tensor slice(int dim, std::int64_t begin, std::int64_t end, std::int64_t step = 1,
               Loc at = std::source_location::current()) const;
  /// Returns one index of a dimension; the result lacks that dimension.
  Tensor select(int dim, std::int64_t index, Loc at = std::source_location::current()) const;
  Tensor transpose(int a, int b, Loc at = std::source_location::current()) const;
  /// Dimension i of the result is dimension order[i] of this.
  Tensor permute(const Dims& order, Loc at = std::source_location::current()) const;
  /// Returns the dimension in reverse order.
  Tensor flip(int dim, Loc at = std::source_location::current()) const;
  /// Returns the same elements in another shape; an extent of -1 is computed. Requires a contiguous
  /// tensor.
  Tensor reshape(const Dims& shape, Loc at = std::source_location::current()) const;
  /// Prepends dimensions of extent 1 until there are `rank`.
  Tensor with_rank(int rank) const;
  /// Repeats extents of 1 by a stride of 0.
  Tensor broadcast_to(const Dims& shape, Loc at = std::source_location::current()) const;

  /// Returns the same elements on another device (this tensor itself if it is there already). Waits
  /// for the copy.
  Tensor to(Device device, const Stream& stream, Loc at = std::source_location::current()) const;
  Tensor to(Device device, Loc at = std::source_location::current()) const;
  /// Returns a row-major copy, or this tensor itself if it is row-major.
  Tensor contiguous(Loc at = std::source_location::current()) const;
  /// Returns a row-major copy in new memory.
  Tensor clone(Loc at = std::source_location::current()) const;
  /// Returns a copy with another element type, as kernels cast: integers wrap, floats round to
  /// nearest even, or towards zero to an integer type, which saturates and gives 0 for NaN. Throws
  /// CompileError (T0703), as `to_doubles` does, if the tensor is undefined.
  Tensor cast(DType dtype, Loc at = std::source_location::current()) const;
  /// Overwrites the elements with those of a tensor of the same shape and type, on any device.
  void copy_from(const Tensor& source, const Stream& stream,
                 Loc at = std::source_location::current()) const;
  void copy_from(const Tensor& source, Loc at = std::source_location::current()) const;
  /// Sets every element to `value`.
  void fill(double value, Loc at = std::source_location::current()) const;

  /// Returns the elements in row-major order. Throws CompileError unless `T` is the element type.
  template <Element T>
  std::vector<T> to_vector(Loc at = std::source_location::current()) const {
    require_type(dtype_of<T>, at);
    const Tensor host = to(Device::cpu(), at).contiguous(at);
    const auto* first = static_cast<const T*>(host.data());
    return std::vector<T>(first, first + host.numel());
  }
  /// Returns the elements in row-major order as doubles (exact unless i64 or u64 beyond 2^53).
  std::vector<double> to_doubles(Loc at = std::source_location::current()) const;

  /// Returns the offset, in bytes from the first byte of the allocation, of the first overwritten
  /// byte in a red zone around this host memory; nothing if the zones are intact or there are none.
  std::optional<std::int64_t> red_zone_damage() const;

  /// Takes ownership of a DLPack tensor: its deleter is called with the last view. Throws
  /// CompileError for types that Tegula lacks; the caller still owns the tensor then.
  static Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed,
                            Loc at = std::source_location::current());
  static Tensor from_dlpack(dlpack::ManagedTensor* managed,
                            Loc at = std::source_location::current());
  /// Returns a DLPack tensor that shares this memory; the receiver must call its deleter.
  dlpack::ManagedTensorVersioned* to_dlpack() const;
  dlpack::ManagedTensor* to_dlpack_unversioned() const;

 private:
  static Tensor from_host(const void* values, std::size_t count, const Dims& shape, DType dtype,
                          Device device, Loc at);
  void require_type(DType wanted, Loc at) const;
  void require_host_type(DType wanted, Loc at) const;
  std::size_t checked_dim(int dim, Loc at) const;
  Tensor with_layout(void* data, const Dims& shape, const Dims& strides) const;

  bool defined_ = false;
  DType dtype_ = DType::f32;
  Device device_;
  Dims shape_;
  Dims strides_;
  std::int64_t numel_ = 0;
  void* data_ = nullptr;
  std::shared_ptr<void> owner_;
};

}  // namespace tegula
