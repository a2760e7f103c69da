#include "runtime/tensor_map.h"

#include <fmt/format.h>

#include "runtime/driver_api.h"
#include "tegula/error.h"

namespace tegula::runtime {
namespace {

constexpr std::array<cu::TensorMapType, kDTypeCount> kTypes = [] {
  std::array<cu::TensorMapType, kDTypeCount> types{};
  const auto set = [&](DType d, cu::TensorMapType t) { types[static_cast<std::size_t>(d)] = t; };
  // TMA moves bits: a type without one of its own goes as the unsigned type of its size.
  for (DType d : {DType::i1, DType::i8, DType::u8, DType::f8e4m3, DType::f8e5m2}) set(d, cu::kMapU8);
  for (DType d : {DType::i16, DType::u16}) set(d, cu::kMapU16);
  set(DType::i32, cu::kMapI32);
  set(DType::u32, cu::kMapU32);
  set(DType::i64, cu::kMapI64);
  set(DType::u64, cu::kMapU64);
  set(DType::f16, cu::kMapF16);
  set(DType::bf16, cu::kMapBf16);
  set(DType::f32, cu::kMapF32);
  set(DType::f64, cu::kMapF64);
  return types;
}();

int swizzle_bytes(cu::TensorMapSwizzle swizzle) { return swizzle == cu::kSwizzleNone ? 0 : 16 << swizzle; }

std::string stride_fault(const TensorMapSpec& s) {
  for (int i = 1; i < s.rank; ++i) {
    const std::uint64_t stride = s.byte_strides[static_cast<std::size_t>(i - 1)];
    if (stride % 16 != 0) return fmt::format("the stride of dimension {} is {} bytes, not a multiple of 16", i, stride);
    if (stride >= std::uint64_t{1} << 40) return fmt::format("the stride of dimension {} is {} bytes, 2^40 or more", i, stride);
  }
  return {};
}

std::string box_fault(const TensorMapSpec& s) {
  for (int i = 0; i < s.rank; ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (s.extents[d] == 0 || s.extents[d] > std::uint64_t{1} << 32)
      return fmt::format("dimension {} has {} elements, not 1 to 2^32", i, s.extents[d]);
    if (s.box[d] == 0 || s.box[d] > 256) return fmt::format("the box has {} elements along dimension {}, not 1 to 256", s.box[d], i);
    if (s.element_strides[d] == 0 || s.element_strides[d] > 8)
      return fmt::format("the element stride of dimension {} is {}, not 1 to 8", i, s.element_strides[d]);
  }
  const std::uint32_t row = s.box[0] * static_cast<std::uint32_t>(size_bytes(s.dtype));
  if (row % 16 != 0) return fmt::format("a row of the box is {} bytes, not a multiple of 16", row);
  const int span = swizzle_bytes(s.swizzle);
  if (span != 0 && row > static_cast<std::uint32_t>(span))
    return fmt::format("a row of the box is {} bytes, more than the swizzle of {}", row, span);
  return {};
}

}  // namespace

std::string tensor_map_fault(const TensorMapSpec& s) {
  if (s.rank < 1 || s.rank > TensorMapSpec::kMaxRank) return fmt::format("{} dimensions, not 1 to 5", s.rank);
  if (reinterpret_cast<std::uintptr_t>(s.address) % 16 != 0)
    return fmt::format("the address {} is not a multiple of 16", s.address);
  if (s.as_tf32 && s.dtype != DType::f32) return fmt::format("tf32 rounding of {}", name(s.dtype));
  if (s.fill == cu::kFillNan && !is_float(s.dtype)) return fmt::format("NaN as fill of {}", name(s.dtype));
  if (std::string fault = stride_fault(s); !fault.empty()) return fault;
  return box_fault(s);
}

void encode_tensor_map(const TensorMapSpec& spec, cu::TensorMap* map) {
  const cu::TensorMapType type = spec.as_tf32 ? cu::kMapTf32 : kTypes[static_cast<std::size_t>(spec.dtype)];
  const cu::Result result = driver().tensor_map_encode(
      map, type, static_cast<std::uint32_t>(spec.rank), const_cast<void*>(spec.address), spec.extents.data(),
      spec.byte_strides.data(), spec.box.data(), spec.element_strides.data(), cu::kInterleaveNone, spec.swizzle, spec.l2,
      spec.fill);
  if (result == cu::kSuccess) return;
  if (const std::string fault = tensor_map_fault(spec); !fault.empty()) {
    Diagnostic d;
    d.message = "TMA cannot address this tensor: " + fault;
    throw CompileError(std::move(d));
  }
  throw_driver_error(result, "cuTensorMapEncodeTiled");
}

void TensorMapCache::fill(Entry& entry, const TensorMapSpec& spec) {
  entry.spec = TensorMapSpec{};  // no half-made entry may match
  encode_tensor_map(spec, &entry.map);
  entry.spec = spec;
  ++misses_;
}

}  // namespace tegula::runtime
