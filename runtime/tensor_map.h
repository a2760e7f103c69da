#pragma once
// Tensor maps for the driver: what TMA reads to address a box of a tensor.
#include <array>
#include <cstdint>
#include <string>

#include "codegen/tensor_map.h"
#include "runtime/driver_types.h"

namespace tegula::runtime {

/// Why the hardware has no such tensor map, or "": alignment of address and strides, extents, box
/// and swizzle.
std::string tensor_map_fault(const codegen::TensorMap& map);

/// Throws CompileError with tensor_map_fault() if the driver refuses the map for one of its
/// reasons, else DeviceError.
void encode_tensor_map(const codegen::TensorMap& map, cu::TensorMap* out,
                       cu::TensorMapL2 l2 = cu::kL2Promote256);

/// The last few tensor maps of one kernel argument. Addressing only is encoded, so an entry stays
/// right when the tensor's contents change. For one thread at a time.
class TensorMapCache {
 public:
  /// Valid until the next call.
  const cu::TensorMap& get(const codegen::TensorMap& map) {
    Entry& entry = entries_[slot_of(map)];
    if (!(entry.key == map)) [[unlikely]]
      fill(entry, map);
    return entry.encoded;
  }
  int misses() const { return misses_; }

 private:
  static constexpr std::size_t kWays = 8;
  struct Entry {
    codegen::TensorMap key;  // a null base matches no real map
    cu::TensorMap encoded;
  };
  static std::size_t slot_of(const codegen::TensorMap& m) {
    const auto x = reinterpret_cast<std::uintptr_t>(m.base) ^
                   static_cast<std::uint64_t>(m.dims[0]) << 7 ^
                   static_cast<std::uint64_t>(m.dims[1]) << 23 ^
                   static_cast<std::uint64_t>(m.strides[1]) << 40;
    return (x * 0x9e3779b97f4a7c15u) >> 61;
  }
  void fill(Entry& entry, const codegen::TensorMap& map);

  std::array<Entry, kWays> entries_{};
  int misses_ = 0;
};

}  // namespace tegula::runtime
