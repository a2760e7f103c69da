#pragma once
// A TMA tensor map as plain data: the launch recipe fills it, the runtime passes it to
// cuTensorMapEncodeTiled and the simulator executes it.
#include <cstdint>

#include "tegula/dtype.h"

namespace tegula::codegen {

inline constexpr int kMaxTensorRank = 5;

/// A box reads 0 outside the tensor. All lists are innermost dimension first.
struct TensorMap {
  void* base = nullptr;  ///< 16-byte aligned
  DType dtype = DType::bf16;
  std::int32_t rank = 2;
  std::int64_t dims[kMaxTensorRank] = {};  ///< elements
  std::int64_t strides[kMaxTensorRank] =
      {};  ///< bytes; strides[0] is the element size, the others multiples of 16
  std::int32_t box[kMaxTensorRank] = {};  ///< elements, at most 256 each
  std::int32_t swizzle = 0;               ///< bytes of the pattern: 0 32 64 128

  friend bool operator==(const TensorMap&, const TensorMap&) = default;
};

/// Returns the bytes of one box in shared memory, which a load adds to its mbarrier's transaction
/// count.
constexpr std::int64_t box_bytes(const TensorMap& m) {
  std::int64_t n = size_bytes(m.dtype);
  for (int d = 0; d < m.rank; ++d) n *= m.box[d];
  return n;
}

/// Returns the shared-memory address of a byte under a swizzle of `span` bytes, for TMA, wgmma and
/// ld/st.shared. XORs the address bits from 4 on (16-byte chunk) with those from 7 on (row).
constexpr std::uint32_t swizzled(std::uint32_t address, int span) {
  const std::uint32_t chunks = span == 0 ? 0 : static_cast<std::uint32_t>(span) / 16 - 1;
  return address ^ (((address >> 7) & chunks) << 4);
}

}  // namespace tegula::codegen
