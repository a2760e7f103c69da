#include "runtime/tensor_map.h"

#include "runtime/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/driver_api.h"
#include "tegula/error.h"

namespace tegula::runtime {
namespace {

constexpr std::array<cu::TensorMapType, kDTypeCount> kTypes = [] {
  std::array<cu::TensorMapType, kDTypeCount> types{};
  const auto set = [&](DType d, cu::TensorMapType t) { types[static_cast<std::size_t>(d)] = t; };
  // TMA moves bits: a type without one of its own goes as the unsigned type of its size.
  for (DType d : {DType::i1, DType::i8, DType::u8, DType::f8e4m3, DType::f8e5m2})
    set(d, cu::kMapU8);
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

std::string stride_fault(const codegen::TensorMap& m) {
  for (int i = 1; i < m.rank; ++i) {
    if (m.strides[i] % 16 != 0)
      return fmt::format("the stride of dimension {} is {} bytes, not a multiple of 16", i,
                         m.strides[i]);
    if (m.strides[i] < 0 || m.strides[i] >= std::int64_t{1} << 40)
      return fmt::format("the stride of dimension {} is {} bytes, not below 2^40", i, m.strides[i]);
  }
  return {};
}

std::string box_fault(const codegen::TensorMap& m) {
  for (int i = 0; i < m.rank; ++i) {
    if (m.dims[i] < 1 || m.dims[i] > std::int64_t{1} << 32)
      return fmt::format("dimension {} has {} elements, not 1 to 2^32", i, m.dims[i]);
    if (m.box[i] < 1 || m.box[i] > 256)
      return fmt::format("the box has {} elements along dimension {}, not 1 to 256", m.box[i], i);
  }
  const int row = m.box[0] * size_bytes(m.dtype);
  if (row % 16 != 0) return fmt::format("a row of the box is {} bytes, not a multiple of 16", row);
  if (m.swizzle != 0 && row > m.swizzle)
    return fmt::format("a row of the box is {} bytes, more than the swizzle of {}", row, m.swizzle);
  return {};
}

cu::TensorMapSwizzle swizzle_mode(int bytes) {
  constexpr std::array kBytes{0, 32, 64, 128};
  const auto* found = std::find(kBytes.begin(), kBytes.end(), bytes);
  if (found == kBytes.end())
    throw InternalError(fmt::format("a tensor map with a swizzle of {} bytes", bytes));
  return static_cast<cu::TensorMapSwizzle>(found - kBytes.begin());
}

}  // namespace

std::string tensor_map_fault(const codegen::TensorMap& m) {
  if (m.rank < 1 || m.rank > codegen::kMaxTensorRank)
    return fmt::format("{} dimensions, not 1 to 5", m.rank);
  if (reinterpret_cast<std::uintptr_t>(m.base) % 16 != 0)
    return fmt::format("the address {} is not a multiple of 16", m.base);
  if (m.fill == codegen::OobFill::Nan && !is_float(m.dtype))
    return fmt::format("NaN as fill of {}", name(m.dtype));
  if (std::string fault = stride_fault(m); !fault.empty()) return fault;
  return box_fault(m);
}

void encode_tensor_map(const codegen::TensorMap& m, cu::TensorMap* out, cu::TensorMapL2 l2) {
  // The driver wants a current context, although the map does not depend on it.
  const ContextScope context(0);
  std::array<std::uint64_t, codegen::kMaxTensorRank> dims{}, strides{};
  std::array<std::uint32_t, codegen::kMaxTensorRank> box{}, ones{1, 1, 1, 1, 1};
  for (int i = 0; i < std::min(m.rank, codegen::kMaxTensorRank); ++i) {
    const auto d = static_cast<std::size_t>(i);
    dims[d] = static_cast<std::uint64_t>(m.dims[i]);
    box[d] = static_cast<std::uint32_t>(m.box[i]);
    if (i > 0)
      strides[d - 1] = static_cast<std::uint64_t>(m.strides[i]);  // the driver knows the innermost
  }
  const cu::Result result = driver().tensor_map_encode(
      out, kTypes[static_cast<std::size_t>(m.dtype)], static_cast<std::uint32_t>(m.rank), m.base,
      dims.data(), strides.data(), box.data(), ones.data(), cu::kInterleaveNone,
      swizzle_mode(m.swizzle), l2, m.fill == codegen::OobFill::Nan ? cu::kFillNan : cu::kFillZero);
  if (result == cu::kSuccess) return;
  if (const std::string fault = tensor_map_fault(m); !fault.empty()) {
    Diagnostic d;
    d.message = "TMA cannot address this tensor: " + fault;
    throw CompileError(std::move(d));
  }
  throw_driver_error(result, "cuTensorMapEncodeTiled");
}

void TensorMapCache::fill(Entry& entry, const codegen::TensorMap& map) {
  entry.key = {};  // no half-made entry may match
  encode_tensor_map(map, &entry.encoded);
  entry.key = map;
  ++misses_;
}

}  // namespace tegula::runtime
