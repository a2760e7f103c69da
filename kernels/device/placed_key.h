#pragma once
// 16-bit keys combined with their positions into words that can be sorted directly.
#include "tegula/order.h"
#include "tegula/tegula.h"

namespace tegula::kernels::device {

/// A bf16 and its position as an unsigned word: elements that a sort in this direction places first
/// have smaller words; ties are resolved by the position. NaN follows all numbers.
class PlacedKey {
 public:
  explicit PlacedKey(Direction direction) : is_descending_(direction == Direction::descending) {}

  /// Positions are from 0 to 65535.
  Tile word(const Tile& key, const Tile& place) const {
    const Tile bits = bitcast<i32>(forwards(cast<f32>(key)));
    const Tile ordered = bitcast<u32>(bits ^ ((bits >> 31) | kSign));
    return (ordered & kUpper) | cast<u32>(place);
  }
  static Tile place(const Tile& word) { return cast<i32>(word & kLower); }
  Tile key(const Tile& word) const {
    // Inverts all bits of a negative number, including those of the lower half.
    const Tile has_sign = word >= kTop;
    const Tile bits = where(has_sign, (word & kUpper) ^ kTop, ~(word | kLower));
    return cast<bf16>(forwards(bitcast<f32>(bits)));
  }

 private:
  static constexpr std::int32_t kSign = INT32_MIN;
  static constexpr std::uint32_t kUpper = 0xffff0000u, kLower = 0xffffu, kTop = 0x80000000u;

  /// Returns numbers in ascending order, with zeros as +0 and canonical NaN.
  Tile forwards(const Tile& x) const { return is_descending_ ? 0.0f - x : x + 0.0f; }

  bool is_descending_;
};

}  // namespace tegula::kernels::device
