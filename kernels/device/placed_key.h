#pragma once
// Keys of 16 bits and their places, as words that sort by themselves.
#include "tegula/order.h"
#include "tegula/tegula.h"

namespace tegula::device {

/// A bf16 and where it stands, as an unsigned word: what a sort in this direction puts first is
/// smaller, of equal numbers the one whose place is. NaN is behind all numbers.
class PlacedKey {
 public:
  explicit PlacedKey(Direction direction) : is_descending_(direction == Direction::descending) {}

  /// Places are from 0 to 65535.
  Tile word(const Tile& key, const Tile& place) const {
    const Tile bits = bitcast<i32>(forwards(cast<f32>(key)));
    const Tile ordered = bitcast<u32>(bits ^ ((bits >> 31) | kSign));
    return (ordered & kUpper) | cast<u32>(place);
  }
  static Tile place(const Tile& word) { return cast<i32>(word & kLower); }
  Tile key(const Tile& word) const {
    // All bits of a negative number are turned, those of the lower half, too.
    const Tile has_sign = word >= kTop;
    const Tile bits = where(has_sign, (word & kUpper) ^ kTop, ~(word | kLower));
    return cast<bf16>(forwards(bitcast<f32>(bits)));
  }

 private:
  static constexpr std::int32_t kSign = INT32_MIN;
  static constexpr std::uint32_t kUpper = 0xffff0000u, kLower = 0xffffu, kTop = 0x80000000u;

  /// The numbers in ascending order, zeros as +0, NaN as the canonical one.
  Tile forwards(const Tile& x) const { return is_descending_ ? 0.0f - x : x + 0.0f; }

  bool is_descending_;
};

}  // namespace tegula::device
