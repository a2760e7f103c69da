#pragma once
// Tensor maps: what TMA reads to address a box of a tensor.
#include <array>
#include <cstdint>
#include <string>

#include "runtime/driver_types.h"
#include "tegula/dtype.h"

namespace tegula::runtime {

/// Everything a tensor map depends on. Dimensions run from the innermost out, whose elements are adjacent; only the
/// first `rank` entries count, the others must keep their defaults.
struct TensorMapSpec {
  static constexpr int kMaxRank = 5;

  const void* address = nullptr;
  std::array<std::uint64_t, kMaxRank> extents{};         ///< elements
  std::array<std::uint64_t, kMaxRank - 1> byte_strides{};  ///< of dimensions 1, 2, ...
  std::array<std::uint32_t, kMaxRank> box{};             ///< elements
  std::array<std::uint32_t, kMaxRank> element_strides{1, 1, 1, 1, 1};
  std::int32_t rank = 0;
  DType dtype = DType::bf16;
  bool as_tf32 = false;  ///< f32 rounded to tf32 while copying
  cu::TensorMapSwizzle swizzle = cu::kSwizzleNone;
  cu::TensorMapL2 l2 = cu::kL2Promote256;
  cu::TensorMapFill fill = cu::kFillZero;

  friend bool operator==(const TensorMapSpec&, const TensorMapSpec&) = default;
};

/// Why the hardware has no such tensor map, or "": alignment of address and strides, extents, box and swizzle.
std::string tensor_map_fault(const TensorMapSpec& spec);

/// Throws CompileError with tensor_map_fault() if there is one, DeviceError if the driver refuses.
void encode_tensor_map(const TensorMapSpec& spec, cu::TensorMap* map);

/// The last few tensor maps of one kernel argument. Addressing only is encoded, so an entry stays right when the
/// tensor's contents change. For one thread at a time.
class TensorMapCache {
 public:
  /// Valid until the next call.
  const cu::TensorMap& get(const TensorMapSpec& spec) {
    Entry& entry = entries_[slot_of(spec)];
    if (!(entry.spec == spec)) [[unlikely]]
      fill(entry, spec);
    return entry.map;
  }
  int misses() const { return misses_; }

 private:
  static constexpr std::size_t kWays = 8;
  struct Entry {
    TensorMapSpec spec;
    cu::TensorMap map;
  };
  static std::size_t slot_of(const TensorMapSpec& spec) {
    auto x = reinterpret_cast<std::uintptr_t>(spec.address) ^ spec.extents[0] << 7 ^ spec.extents[1] << 23 ^ spec.byte_strides[0] << 40;
    return (x * 0x9e3779b97f4a7c15u) >> 61;
  }
  void fill(Entry& entry, const TensorMapSpec& spec);

  std::array<Entry, kWays> entries_{};
  int misses_ = 0;
};

}  // namespace tegula::runtime
