#pragma once
#include <vector>

#include "tegula/control.h"
#include "tegula/math.h"
#include "tegula/programs.h"
#include "tegula/tile_ops.h"
#include "tegula/tiles.h"

/// Device-wide scans in one pass over memory (decoupled look-back: Merrill and Garland,
/// "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016).
namespace tegula {

/// Combines the aggregates of the tiles before a program's own. Every program publishes the
/// aggregate of its tile, adds up those of the tiles before it until one is a prefix, and publishes
/// its own prefix:
///
///   const Tile number = ticket(counter, cdiv(x.dim(0), kBlock));
///   const Tile v = x(slice(number * kBlock, kBlock));
///   const Tile before = LookBack<i32>(words).before(number, sum(v, 0), 0, plus);
///   y(..) = before + cumsum(v, 0);
///
/// Work that does not depend on other programs belongs between the two halves of `before`:
/// meanwhile others read the published aggregate, and this program finds theirs afterwards.
///
///   const LookBack<i32> tiles(words);
///   tiles.publish(number, sum(v, 0));
///   const Tile running = cumsum(v, 0), before = tiles.collect(number, sum(v, 0), 0, plus);
///
/// `T`: an element type of 32 bits. `words` (Ptr<u64>): one word for each tile and element of its
/// aggregate, 0 before the launch, or as left by launches of smaller rounds. `round` (i32, from 0
/// on): lets several consecutive scans use the same words. Tile numbers are tickets, so that
/// programs of smaller ones have started. `combine` is associative and commutative; sums of
/// floats depend on which prefixes were available, and so may differ in their last bits between
/// runs.
template <Element T>
class LookBack {
  static_assert(sizeof(T) == 4, "tegula: LookBack combines elements of 32 bits");

 public:
  explicit LookBack(const Arg& words, const Arg& round = 0)
      : words_(words), not_there_(2 * cast<i32>(round)) {}

  /// Returns the combination of the aggregates of all tiles before number `tile` (i32), `identity`
  /// for the first. The aggregate is a scalar, or a tile of one dimension whose elements are
  /// combined separately.
  template <class Fn>
  Tile before(const Arg& tile, const Arg& aggregate, const Arg& identity, Fn combine) const {
    publish(tile, aggregate);
    return collect(tile, aggregate, identity, combine);
  }

  /// The first half of `before`: publishes the aggregate of tile number `tile`.
  void publish(const Arg& tile, const Arg& aggregate) const {
    const Tile number = cast<i32>(tile);
    write(number, cast<T>(aggregate), not_there_ + where(number == 0, kPrefix, kAggregate));
  }
  /// The second half, with the same tile and aggregate.
  template <class Fn>
  Tile collect(const Arg& tile, const Arg& aggregate, const Arg& identity, Fn combine) const {
    const Tile own = cast<T>(aggregate), start = cast<T>(identity), number = cast<i32>(tile);
    const Tile earlier = own.rank() == 0 ? scalar_before(number, start, combine)
                                         : elements_before(number, own, start, combine);
    write(number, combine(earlier, own), not_there_ + kPrefix);
    return earlier;
  }

 private:
  /// States of a tile, relative to that of a round in which it was not published.
  static constexpr int kAggregate = 1, kPrefix = 2;
  /// Number of tiles that a program reads at once: one for each thread of eight warps, or one for
  /// each load that a thread has in flight.
  static constexpr int kWindow = 256, kElementWindow = 8;

  Tile place(const Tile& number, const Tile& like) const {
    if (like.rank() == 0) return words_ + number;
    const int n = static_cast<int>(like.shape()[0]);
    return words_ + (number * n + arange(n));
  }
  void write(const Tile& number, const Tile& value, const Tile& state) const {
    atomic_store(place(number, value),
                 cast<u64>(bitcast<u32>(value)) | (cast<u64>(cast<u32>(state)) << 32), {},
                 MemoryOrder::relaxed);
  }
  static Tile state_of(const Tile& word) { return cast<i32>(word >> 32); }
  static Tile value_of(const Tile& word) { return bitcast<T>(cast<u32>(word & 0xffffffffu)); }

  template <class Fn>
  Tile scalar_before(const Tile& number, const Tile& start, Fn combine) const;
  template <class Fn>
  Tile elements_before(const Tile& number, const Tile& own, const Tile& start, Fn combine) const;

  Arg words_;
  Tile not_there_;  ///< largest state of a tile that is not published in this round
};

template <Element T>
template <class Fn>
Tile LookBack<T>::scalar_before(const Tile& number, const Tile& start, Fn combine) const {
  const Tile distance = arange(kWindow), prefix = not_there_ + kPrefix;
  Tile total = start, last = number - 1;
  while_([&] { return last >= 0; },
         [&] {
           const Tile at = last - distance;
           const Tile word = atomic_load(words_ + max(0, at), {}, MemoryOrder::relaxed);
           const Tile state = where(at >= 0, state_of(word), prefix);
           const Tile value = where(at >= 0, value_of(word), start);
           // The nearest tile that ends the window: a prefix is included, a tile that is not
           // published is excluded, and is read again.
           const Tile ends = (state <= not_there_) | (state == prefix);
           const Tile end =
               min(where(ends, 2 * distance + cast<i32>(state == prefix), 2 * kWindow), axis(0));
           const Tile is_last = (end & 1) == 1, tiles = (end + 1) >> 1;
           total = combine(total, reduce(where(distance < tiles, value, start), axis(0), combine));
           last = where(is_last, -1, last - tiles);
         });
  return total;
}

template <Element T>
template <class Fn>
Tile LookBack<T>::elements_before(const Tile& number, const Tile& own, const Tile& start,
                                  Fn combine) const {
  const int n = static_cast<int>(own.shape()[0]);
  const Tile element = arange(n), everywhere = element >= 0;
  // `last` is the next tile to add, -1 after a prefix.
  Tile total = where(everywhere, start, own), last = where(everywhere, number - 1, 0);
  while_([&] { return any(last >= 0, axis(0)); },
         [&] {
           // All loads are in flight before the first one is awaited.
           std::vector<Tile> words;
           for (int i = 0; i < kElementWindow; ++i)
             words.push_back(
                 atomic_load(words_ + (max(0, last - i) * n + element), {}, MemoryOrder::relaxed));
           Tile goes_on = last >= 0;
           for (const Tile& word : words) {
             const Tile state = state_of(word), counts = goes_on & (state > not_there_);
             total = where(counts, combine(total, value_of(word)), total);
             goes_on = counts & (state != not_there_ + kPrefix);
             last = where(counts, where(goes_on, last - 1, -1), last);
           }
         });
  return total;
}

}  // namespace tegula
