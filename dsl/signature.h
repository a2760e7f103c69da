#pragma once
// The key of a call: the properties of its arguments that the compiled kernel depends on.
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/type.h"
#include "support/hash.h"
#include "tegula/kernel.h"

namespace tegula::dsl {

using detail::HostArg;
using detail::ParamInfo;
using detail::ParamKind;

/// The name of a parameter, for messages, dumps and checks: "A[M, K]".
struct ParamName {
  std::string name;
  std::vector<std::string> dims;  ///< empty, or one per dimension
};

/// Returns the largest of 1, 2, 4, 8, 16 that divides n.
inline std::uint8_t divisor_class(std::int64_t n) {
  constexpr std::uint64_t kMaxDivisor = 16;
  return static_cast<std::uint8_t>(
      std::uint64_t{1} << std::countr_zero(static_cast<std::uint64_t>(n) | kMaxDivisor));
}
std::int64_t bucket_of(std::int64_t extent);

/// How an extent enters the key.
enum class ExtentKey : std::uint8_t {
  Exact,      ///< the extent itself: static_dim()
  Bucket,     ///< its power of two: `all`
  Any,        ///< nothing, not even its divisors: do_not_specialize()
  AnyStride,  ///< nothing of its stride, unless it is 1: do_not_specialize_stride()
};

/// Part of the key for one dimension of a tensor. A Signature lists these classes and a CallKey
/// hashes them, so that equal call keys imply equal signatures.
struct DimClass {
  std::uint8_t div = 1;         ///< the extent is a multiple: 1, 2, 4, 8 or 16
  std::uint8_t stride_div = 1;  ///< and so is the stride, in elements
  bool unit_stride = false;
  std::int64_t fixed = -1;   ///< the extent itself, if the kernel requested it
  std::int64_t bucket = -1;  ///< the extent rounded up to a power of two, if the kernel uses `all`

  static DimClass of(std::int64_t extent, std::int64_t stride) {
    // TMA, which depends on divisors of strides, does not support negative strides.
    return {divisor_class(extent), stride < 0 ? std::uint8_t{1} : divisor_class(stride),
            stride == 1};
  }
  /// Changes the class as the kernel requested for its dimension, whose extent this is.
  void apply(ExtentKey request, std::int64_t extent) {
    if (request == ExtentKey::Any) {
      div = 1;
    } else if (request == ExtentKey::AnyStride) {
      stride_div = 1;
    } else {
      if (request == ExtentKey::Bucket) bucket = bucket_of(extent);
      // An extent that fills its bucket needs no guard, which justifies a separate key.
      if (request == ExtentKey::Exact || extent == bucket) fixed = extent;
    }
  }
  friend bool operator==(const DimClass&, const DimClass&) = default;
};

/// Part of the key for the memory of a tensor or an address.
struct MemoryClass {
  std::uint8_t align = 1;  ///< bytes that divide the address: 1 .. 16
  bool empty = false;      ///< a tensor without elements
  bool absent = false;     ///< an optional tensor that was left out

  static MemoryClass of(const HostArg& a) {
    MemoryClass m;
    std::uint64_t address = a.bits;
    if (a.kind == ParamKind::View) {
      m.absent = a.tensor == nullptr;
      m.empty = a.tensor && a.tensor->numel() == 0;
      address = a.tensor ? reinterpret_cast<std::uintptr_t>(a.tensor->data()) : 1;
    }
    m.align = divisor_class(static_cast<std::int64_t>(address));
    return m;
  }
};

/// Part of the key for one argument.
struct ArgClass : MemoryClass {
  ParamInfo info;
  std::array<DimClass, Dims::kMaxRank> dims{};
  std::uint64_t constant = 0;  ///< bytes of a C++ constant

  /// Extents of the current tensor. Not part of the key; used only for `static_dim` and `all`.
  /// Empty if unknown.
  Dims sample;
};

/// A dimension whose extent the kernel requested during tracing.
struct SpecializationRequest {
  std::uint32_t arg;  ///< position among the run-time arguments
  int axis;
  ExtentKey key;
  friend bool operator==(const SpecializationRequest&, const SpecializationRequest&) = default;
};

/// A Scalar or Tensor that the lambda captured: one more run-time argument.
struct Capture {
  ParamInfo info;
  std::shared_ptr<detail::ScalarCell> cell;  ///< cell of a Scalar
  const Tensor* tensor = nullptr;            ///< a Tensor that outlives the calls, or null
  Tensor copy;                               ///< the tensor itself, if `tensor` is null
  bool is_records = false;                   ///< it is the buffer of records (runtime/records.h)
  HostArg read() const;
};

/// The classes of all run-time arguments, captured ones last, and the constants.
struct Signature {
  std::vector<ArgClass> args;
  std::vector<std::uint64_t> constants;
  DType index_type = DType::i32;

  /// Returns one line per argument, for dumps and explanations. Equal for equal keys.
  std::string text() const;
};

/// Facts about a kernel that traces found: more arguments, and extents that are part of the key.
struct Specialization {
  std::vector<Capture> captures;
  std::vector<SpecializationRequest> requests;
  /// One bit for each dimension of each argument: any extent, any stride (see requests). Empty if
  /// there are no such dimensions.
  std::vector<std::uint8_t> any_extents, any_strides;
  /// True for each argument that is an address to which the kernel writes; missing elements at the
  /// end are false.
  std::vector<bool> stored_through;

  void add(const SpecializationRequest& request);
  bool is_stored_through(std::size_t arg) const {
    return arg < stored_through.size() && stored_through[arg];
  }
  bool is_any_extent(std::size_t arg, std::size_t axis) const {
    return is_in(any_extents, arg, axis);
  }
  bool is_any_stride(std::size_t arg, std::size_t axis) const {
    return is_in(any_strides, arg, axis);
  }

 private:
  static bool is_in(const std::vector<std::uint8_t>& bits, std::size_t arg, std::size_t axis) {
    return arg < bits.size() && (bits[arg] >> axis & 1) != 0;
  }
};

/// Spans of this size and more are indexed in 64 bits; the margin keeps `index + block` below 2^31
/// too.
inline constexpr std::int64_t kSmallSpan = (std::int64_t{1} << 31) - (std::int64_t{1} << 20);
/// The kernel whose arguments are checked: for messages.
struct Callee {
  std::string_view kernel;
  Loc loc;                               ///< definition of the kernel
  std::span<const ParamName> names;      ///< empty, or one per parameter
  std::size_t params = ~std::size_t{0};  ///< arguments from this position on are captured

  /// Returns "argument x of rows", or the argument's number if it has no name.
  std::string argument(std::size_t position) const;
};

/// Throws CompileError if an argument does not fit its parameter.
Signature signature_of(const Callee& callee, std::span<const HostArg> args,
                       std::span<const ParamInfo> params, const Specialization& known);
/// Throws CompileError if the argument does not fit.
void check_argument(const Callee& callee, std::size_t position, const HostArg& arg,
                    const ParamInfo& info);
/// Returns true if indices into the tensor may not fit in an i32.
bool needs_wide_index(const Tensor& t);
/// Returns the class of one argument.
ArgClass classify(const HostArg& arg, const ParamInfo& info);
/// Returns i64 if an index into the tensors may not fit in an i32.
DType index_type_of(std::span<const HostArg> args);
void apply_request(const SpecializationRequest& request, ArgClass& arg);

/// Returns the IR type of a parameter.
ir::Type type_of(const ArgClass& arg);

}  // namespace tegula::dsl
