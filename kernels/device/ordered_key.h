#pragma once
// Sort keys as unsigned words with the order of the sort.
#include <type_traits>

#include "tegula/order.h"
#include "tegula/tegula.h"

namespace tegula::kernels::device {

/// Maps T to words whose ascending order is the order of a sort in the given direction.
template <class T>
class OrderedKey {
 public:
  using Word =
      std::conditional_t<sizeof(T) == 2, u16, std::conditional_t<sizeof(T) == 4, u32, u64>>;
  static constexpr int kBits = 8 * static_cast<int>(sizeof(T));

  explicit OrderedKey(Direction direction) : direction_(direction) {}

  Tile word_of(const Tile& key) const {
    if constexpr (!is_float(dtype_of<T>)) return directed(flip_sign(bitcast<Word>(key)));
    const Tile bits = bitcast<Word>(where(key == 0, 0.0f, key)), is_negative = bits >= sign();
    return where(isnan(key), last(), directed(where(is_negative, ~bits, bits ^ sign())));
  }
  Tile key_of(const Tile& word) const {
    const Tile key = directed(word);
    if constexpr (!is_float(dtype_of<T>)) return bitcast<T>(flip_sign(key));
    const Tile bits = where(key >= sign(), key ^ sign(), ~key);
    return where(word == last(), nan, bitcast<T>(bits));
  }
  /// Returns the largest word.
  static Tile last() { return ~full<Word>(0); }

 private:
  static Tile sign() { return full<Word>(1) << (kBits - 1); }
  static Tile flip_sign(const Tile& bits) { return is_signed(dtype_of<T>) ? bits ^ sign() : bits; }
  Tile directed(const Tile& word) const {
    return direction_ == Direction::descending ? ~word : word;
  }

  Direction direction_;
};

}  // namespace tegula::kernels::device
