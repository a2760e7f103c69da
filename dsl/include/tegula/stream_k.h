#pragma once

#include "tegula/control.h"
#include "tegula/math.h"
#include "tegula/memory.h"
#include "tegula/tile_ops.h"
#include "tegula/view.h"

/// Stream-K (Osama, Merrill, Cecka et al. 2023), for kernels whose tiles have equal trip counts but
/// do not fill a whole number of waves: k-iterations are divided evenly, so that programs end
/// within one iteration of each other, and most tiles are still computed by one program.
namespace tegula {

/// Work of one program on one tile: its k-iterations [k_begin, k_end).
struct StreamKWork {
  /// Returns a loop over the elements of these k-iterations, of which there is at least one.
  detail::LoopRange range() const {
    // An element's index may not fit in 32 bits.
    const auto element = [&](const Tile& step) { return slice(step, 1).first() * block; };
    const Tile begin = element(k_begin), end = element(k_end);
    assume(begin < end);
    return steps(begin, end, block);
  }
  Tile tile, k_begin, k_end;
  /// Elements of a k-iteration.
  int block;
  /// Number of programs that share the tile, which are consecutive from `first_program`, and this
  /// program's number among them.
  Tile peers, peer, first_program;
};

/// The k-iterations of one program. Tiles of whole waves are assigned to one program each. The
/// remaining tiles, with those of the last whole wave, if there is one, form one row of
/// k-iterations that is divided equally over all programs. A tile is then divided at most once, and
/// over more programs only if there are fewer tiles than programs. The divided tiles come first, so
/// that their fixup overlaps the loads of others.
class StreamKScheduler {
 public:
  /// Divides the k-iterations of `tiles` tiles over `programs` programs (i32). An iteration takes
  /// `block` elements of `extent`; there is at least one.
  StreamKScheduler(const Index& program, const Tile& programs, const Tile& tiles,
                   const Tile& extent, int block)
      : program_(cast<i32>(program.first())),
        programs_(programs),
        steps_(cast<i32>((extent + (block - 1)) / block)),
        block_(block) {
    const Tile left_over = tiles % programs;
    stream_k_tiles_ = where(left_over == 0, 0, min(tiles, left_over + programs));
    const Tile row = stream_k_tiles_ * steps_;
    iters_per_cta_ = row / programs;
    remainder_ = row % programs;
    begin_ = program_ * iters_per_cta_ + min(program_, remainder_);
    end_ = begin_ + iters_per_cta_ + where(program_ < remainder_, 1, 0);
    first_tile_ = begin_ / steps_;
    parts_ = where(begin_ < end_, (end_ + steps_ - 1) / steps_ - first_tile_, 0);
    count_ = parts_ + (tiles - stream_k_tiles_) / programs;
  }

  /// Returns the number of tiles that the program works on.
  const Tile& count() const { return count_; }

  /// Returns the program's work on the tile with this number, from 0 to count() - 1.
  StreamKWork at(const Index& number) const {
    const Tile i = cast<i32>(number.first());
    const Tile is_part = i < parts_, part = first_tile_ + i, origin = part * steps_;
    StreamKWork s;
    s.block = block_;
    s.tile = where(is_part, part, stream_k_tiles_ + (i - parts_) * programs_ + program_);
    s.k_begin = where(is_part, max(begin_ - origin, 0), 0);
    s.k_end = where(is_part, min(end_ - origin, steps_), steps_);
    const Tile is_whole = s.k_end - s.k_begin == steps_;
    s.first_program = program_of(origin);
    s.peer = program_ - s.first_program;
    s.peers = where(is_whole, 1, program_of(origin + (steps_ - 1)) - s.first_program + 1);
    return s;
  }

 private:
  /// Returns the program that executes an iteration of the row.
  Tile program_of(const Tile& step) const {
    const Tile longer = remainder_ * (iters_per_cta_ + 1);
    return where(step < longer, step / (iters_per_cta_ + 1),
                 remainder_ + (step - longer) / max(iters_per_cta_, 1));
  }

  Tile program_, programs_, steps_, stream_k_tiles_, iters_per_cta_, remainder_, begin_, end_,
      first_tile_, parts_, count_;
  int block_;
};

/// Fixup: adds the partial accumulators of the programs that share a tile, pairwise: the first of
/// two neighbours to arrive stores its sum in memory and ends, and the second adds that to its own.
/// The order of arrival does not change the results. Returns true in the program that has the whole
/// sum. `sums` [2 programs, rows, cols] and `arrivals` [programs], which are 0, have an entry for
/// the border before every program.
template <Element T>
Tile fixup(Tile& sum, const StreamKWork& s, const InOut<T, 3>& sums, const Ptr<u32>& arrivals) {
  const auto shape = sum.shape();
  const auto place = [&](const Tile& border, const Tile& side) {
    const Index at = slice(border * 2 + side, 1);
    assume(at.first() < sums.dim(0));
    return sums(at, slice(0, shape[0]), slice(0, shape[1]));
  };
  Tile goes_on = Tile(true), distance = Tile(1);
  while_([&] { return goes_on && distance < s.peers; },
         [&] {
           // The border between [.., middle) and [middle, ..).
           const Tile middle = (s.peer & (distance * -2)) + distance;
           if_(middle < s.peers, [&] {
             const Tile border = s.first_program + middle,
                        side = where((s.peer & distance) == 0, 0, 1);
             place(border, side) = fill_absent(sum, any_value);
             goes_on = arrive_and_test_last(arrivals + border, 2);
             if_(goes_on, [&] { sum = sum + fill_absent(place(border, 1 - side), any_value); });
           });
           distance = distance * 2;
         });
  return goes_on;
}

}  // namespace tegula
