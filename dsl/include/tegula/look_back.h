#pragma once
#include "tegula/control.h"
#include "tegula/math.h"
#include "tegula/programs.h"
#include "tegula/tile_ops.h"
#include "tegula/tiles.h"

/// Device-wide scans in one pass over memory (decoupled look-back: Merrill and Garland,
/// "Single-pass Parallel Prefix Scan with Decoupled Look-back", 2016).
namespace tegula {

/// Combines the aggregates of tiles before a program's own. Every program publishes the aggregate
/// of its tile, adds up those of the tiles before it until one is a prefix, and publishes its own
/// prefix:
///
///   const Tile number = ticket(counter, cdiv(x.dim(0), kBlock));
///   const Tile v = x(slice(number * kBlock, kBlock));
///   const Tile before = LookBack<i32>(words).before(number, sum(v, 0), 0, plus);
///   y(..) = before + cumsum(v, 0);
///
/// `T`: an element type of 32 bits. `words` (Ptr<u64>): one word for each tile and element of its
/// aggregate, 0 before the launch. Tile numbers are tickets, so that programs of smaller ones have
/// started. `combine` is associative and commutative; sums of floats depend on which prefixes were
/// there, and so may differ in their last bits between runs.
template <Element T>
class LookBack {
  static_assert(sizeof(T) == 4, "tegula: LookBack combines elements of 32 bits");

 public:
  explicit LookBack(const Arg& words) : words_(words) {}

  /// The combination of the aggregates of all tiles before number `tile` (i32), `identity` for the
  /// first. The aggregate is a scalar, or a tile of one dimension each element of which is combined
  /// by itself.
  template <class Fn>
  Tile before(const Arg& tile, const Arg& aggregate, const Arg& identity, Fn combine) const {
    const Tile own = cast<T>(aggregate), start = cast<T>(identity), number = cast<i32>(tile);
    publish(number, own, where(number == 0, Tile(u64{kPrefix}), Tile(u64{kAggregate})));
    const Tile earlier = own.rank() == 0 ? scalar_before(number, start, combine)
                                         : elements_before(number, own, start, combine);
    publish(number, combine(earlier, own), Tile(u64{kPrefix}));
    return earlier;
  }

 private:
  static constexpr u64 kAggregate = 1, kPrefix = 2;
  static constexpr int kWindow = 32;

  Tile place(const Tile& number, const Tile& like) const {
    if (like.rank() == 0) return words_ + number;
    const int n = static_cast<int>(like.dim(0));
    return words_ + (number * n + arange(n));
  }
  void publish(const Tile& number, const Tile& value, const Tile& state) const {
    atomic_store(place(number, value), cast<u64>(bitcast<u32>(value)) | (state << 32), {},
                 MemoryOrder::relaxed);
  }
  static Tile state_of(const Tile& word) { return cast<i32>(word >> 32); }
  static Tile value_of(const Tile& word) { return bitcast<T>(cast<u32>(word & 0xffffffffu)); }

  /// Looks at as many tiles at a time as a warp has lanes.
  template <class Fn>
  Tile scalar_before(const Tile& number, const Tile& start, Fn combine) const;
  /// Looks at one tile at a time.
  template <class Fn>
  Tile elements_before(const Tile& number, const Tile& own, const Tile& start, Fn combine) const;

  Arg words_;
};

template <Element T>
template <class Fn>
Tile LookBack<T>::scalar_before(const Tile& number, const Tile& start, Fn combine) const {
  constexpr int kIsPrefix = static_cast<int>(kPrefix);
  const Tile lane = arange(kWindow);
  Tile total = start, last = number - 1;
  while_([&] { return last >= 0; },
         [&] {
           const Tile at = last - lane;
           const Tile word = atomic_load(words_ + max(0, at), {}, MemoryOrder::relaxed);
           const Tile state = where(at >= 0, state_of(word), kIsPrefix);
           const Tile value = where(at >= 0, value_of(word), start);
           // Behind the nearest prefix nothing counts.
           const Tile nearest = min(where(state == kIsPrefix, lane, kWindow), axis(0));
           const Tile counts = lane <= nearest;
           const Tile is_ready = any(counts & (state == 0), axis(0)) == false;
           const Tile window = reduce(where(counts, value, start), axis(0), combine);
           total = where(is_ready, combine(total, window), total);
           last = where(is_ready, where(nearest < kWindow, -1, last - kWindow), last);
         });
  return total;
}

template <Element T>
template <class Fn>
Tile LookBack<T>::elements_before(const Tile& number, const Tile& own, const Tile& start,
                                  Fn combine) const {
  const int n = static_cast<int>(own.dim(0));
  const Tile element = arange(n), everywhere = element >= 0;
  Tile total = where(everywhere, start, own), at = where(everywhere, number - 1, 0),
       is_open = everywhere & (number > 0);
  while_([&] { return any(is_open, axis(0)); },
         [&] {
           const Tile word =
               atomic_load(words_ + (max(0, at) * n + element), {}, MemoryOrder::relaxed);
           const Tile state = state_of(word), is_there = is_open & (state != 0);
           total = where(is_there, combine(total, value_of(word)), total);
           at = where(is_there, at - 1, at);
           is_open = is_open & (state != static_cast<int>(kPrefix));
         });
  return total;
}

}  // namespace tegula
