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

/// Up to eight integers held in place: a shape, strides or an index.
class Dims {
 public:
  static constexpr int kMaxRank = 8;

  constexpr Dims() = default;
  constexpr Dims(std::initializer_list<std::int64_t> values) {
    if (values.size() > kMaxRank) too_many(values.size());
    for (std::int64_t v : values) values_[size_++] = v;
  }
  explicit constexpr Dims(std::span<const std::int64_t> values) {
    if (values.size() > kMaxRank) too_many(values.size());
    for (std::int64_t v : values) values_[size_++] = v;
  }
  /// `count` times `value`.
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
  /// "[2, 3]"
  std::string str() const;

  friend constexpr bool operator==(const Dims& a, const Dims& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (a.values_[i] != b.values_[i]) return false;
    return true;
  }

 private:
  [[noreturn]] static void too_many(std::size_t count);
  std::array<std::int64_t, kMaxRank> values_{};
  std::size_t size_ = 0;
};

/// The addresses a tensor may touch: [begin, end). Empty for a tensor without elements.
struct ByteRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  friend constexpr bool operator==(const ByteRange&, const ByteRange&) = default;
};

/// A strided array of elements on a device. Copying a Tensor copies the handle: both mean the same
/// elements. The memory is shared by all views of it and freed with the last; a borrowed tensor
/// frees nothing. Mistakes in shapes and types throw CompileError with the caller's line, failures
/// of the machine DeviceError.
class Tensor {
 public:
  /// No tensor at all: rank 0, no data, `defined()` is false.
  Tensor() = default;

  /// New memory whose elements are not initialised. On the host every byte is set to 0xff (NaN,
  /// -1), so that a use before a store shows, and the memory lies between red zones.
  static Tensor empty(const Dims& shape, DType dtype, Device device = Device::best(),
                      Loc at = std::source_location::current());
  static Tensor zeros(const Dims& shape, DType dtype, Device device = Device::best(),
                      Loc at = std::source_location::current());
  /// Every element is `value`, rounded to `dtype`, towards zero to an integer. Throws CompileError
  /// (T1230), as `iota` and `integers` do, where an integer type lacks a value.
  static Tensor full(const Dims& shape, double value, DType dtype, Device device = Device::best(),
                     Loc at = std::source_location::current());
  /// 0, 1, 2, ... in row-major order, rounded to `dtype`.
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

  /// A copy of host values in row-major order.
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
  /// A vector as a tensor of rank 1.
  template <Element T>
  static Tensor from(const std::vector<T>& values, Device device = Device::best(),
                     Loc at = std::source_location::current()) {
    return from(values, Dims{static_cast<std::int64_t>(values.size())}, device, at);
  }

  /// Foreign memory: `data` is the address of element 0. Strides count elements and may be negative
  /// or zero; none means row-major; that of an extent of 1 may be another in the tensor. `owner` is
  /// kept alive as long as any view.
  static Tensor borrow(void* data, const Dims& shape, DType dtype, Device device,
                       const Dims& strides = {}, std::shared_ptr<void> owner = nullptr,
                       Loc at = std::source_location::current());
  /// The memory that a DLPack tensor describes; the description may go, the memory must stay.
  /// Throws CompileError for types, devices and ranks that Tegula lacks, and for null memory.
  static Tensor borrow(const dlpack::Tensor& tensor, Loc at = std::source_location::current());

  bool defined() const { return defined_; }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  const Dims& shape() const { return shape_; }
  /// In elements.
  const Dims& strides() const { return strides_; }
  /// Extent of a dimension; negative counts from the last. Throws CompileError out of range.
  std::int64_t size(int dim, Loc at = std::source_location::current()) const;
  std::int64_t stride(int dim, Loc at = std::source_location::current()) const;
  std::int64_t numel() const { return numel_; }
  /// Address of element 0: of this device, not to be read on the host unless `device().on_host()`.
  void* data() const { return data_; }
  /// The host address of element 0 as a `T`. Throws CompileError unless the dtype is T's and the
  /// memory the host's.
  template <Element T>
  T* data_as(Loc at = std::source_location::current()) const {
    require_host_type(dtype_of<T>, at);
    return static_cast<T*>(data_);
  }
  /// Row-major without gaps (extents of 1 may have any stride).
  bool is_contiguous() const;
  ByteRange byte_range() const;
  /// "bf16[128, 64] on cuda:0", with the strides where they are not row-major.
  std::string str() const;

  /// Elements begin, begin + step, ... before `end` of one dimension. A negative step walks down:
  /// from `begin` to just above `end` (-1 reaches element 0). Negative `dim` counts from the last.
  Tensor slice(int dim, std::int64_t begin, std::int64_t end, std::int64_t step = 1,
               Loc at = std::source_location::current()) const;
  /// One index of a dimension, which disappears.
  Tensor select(int dim, std::int64_t index, Loc at = std::source_location::current()) const;
  Tensor transpose(int a, int b, Loc at = std::source_location::current()) const;
  /// Dimension i of the result is dimension order[i] of this.
  Tensor permute(const Dims& order, Loc at = std::source_location::current()) const;
  /// The dimension read backwards.
  Tensor flip(int dim, Loc at = std::source_location::current()) const;
  /// The same elements in another shape; -1 stands for one extent to be computed. Contiguous
  /// tensors only.
  Tensor reshape(const Dims& shape, Loc at = std::source_location::current()) const;
  /// Dimensions of extent 1 in front of the others, until there are `rank`.
  Tensor with_rank(int rank) const;
  /// Extents of 1 repeated by a stride of 0.
  Tensor broadcast_to(const Dims& shape, Loc at = std::source_location::current()) const;

  /// The same elements on another device (this very tensor if it is there already). Waits for the
  /// copy.
  Tensor to(Device device, const Stream& stream) const;
  Tensor to(Device device) const;
  /// A row-major copy, or this very tensor if it is row-major.
  Tensor contiguous() const;
  /// A row-major copy in memory of its own.
  Tensor clone() const;
  /// A copy with another element type, as kernels cast: integers wrapped, floats rounded to nearest
  /// even, to integers towards zero; of those that the type lacks its nearest one, of NaN 0.
  Tensor cast(DType dtype) const;
  /// Overwrites the elements with those of a tensor of the same shape and type, on any device.
  void copy_from(const Tensor& source, const Stream& stream,
                 Loc at = std::source_location::current()) const;
  void copy_from(const Tensor& source, Loc at = std::source_location::current()) const;
  /// Sets every element.
  void fill(double value) const;

  /// The elements in row-major order. Throws CompileError unless `T` is the element type.
  template <Element T>
  std::vector<T> to_vector(Loc at = std::source_location::current()) const {
    require_type(dtype_of<T>, at);
    const Tensor host = to(Device::cpu()).contiguous();
    const auto* first = static_cast<const T*>(host.data());
    return std::vector<T>(first, first + host.numel());
  }
  /// The elements in row-major order, each as a double (exact unless i64 or u64 beyond 2^53).
  std::vector<double> to_doubles() const;

  /// The first byte of a red zone around this host memory that was overwritten, as an offset in
  /// bytes from the first byte of the allocation; nothing if the zones are whole or there are none.
  std::optional<std::int64_t> red_zone_damage() const;

  /// Takes over a DLPack tensor: its deleter is called with the last view. Throws CompileError for
  /// types Tegula lacks, after which the caller still owns it.
  static Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed,
                            Loc at = std::source_location::current());
  static Tensor from_dlpack(dlpack::ManagedTensor* managed,
                            Loc at = std::source_location::current());
  /// Hands out a DLPack tensor sharing this memory; whoever takes it calls its deleter.
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
