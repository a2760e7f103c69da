#pragma once
// Rows of backward, in which every expert begins at a multiple of 64.
#include <optional>

#include "kernels/moe/rows.h"

namespace tegula::experts {

/// Rows that a step of a weight gradient contracts.
inline constexpr int kAlignedRows = 64;

/// Places of aligned rows: expert e's begin at first(e), in the order of the packed ones, and end
/// at end(e); those that are left over are 0. So the contraction of a weight gradient takes whole
/// steps, whose operands TMA loads without a mask.
struct AlignedRows {
  In<i32, 1> offsets;      ///< [experts + 1] of the packed rows
  In<i32, 1> first_tiles;  ///< [experts + 1]: tiles of kAlignedRows rows of the experts in front

  Tile first(const Index& expert) const { return first_tiles(expert) * kAlignedRows; }
  Tile end(const Index& expert) const { return first(expert.shifted(1)); }
  /// Number of an expert's aligned row less that of the packed one.
  Tile shift(const Index& expert) const { return first(expert) - offsets(expert); }
  /// The aligned rows of a tile of packed ones, with those that are left over.
  Index of(const Index& expert, const Index& packed) const {
    return slice(packed.first() + shift(expert), packed.block()).until(end(expert));
  }
};

/// The rows of PermuteRows, aligned.
template <class T>
struct PermuteAlignedRows {
  void operator()(In<T, 2> X, In<i32, 1> slot_of, AlignedRows aligned,
                  std::optional<In<f32, 1>> weights, Out<T, 2> P, int k) const {
    constexpr int kRows = 4;  // whose reads are under way together
    for (auto [e, r, c] :
         grid(segments(aligned.offsets, slot_of.rows()).by(P.cols()).numbered(aligned.first_tiles),
              kAlignedRows, kRowColumns)) {
      grid_dependency_wait();
      P.partial();
      const Tile end = aligned.offsets(e.shifted(1)), shift = aligned.shift(e);
      for (auto i : steps(kAlignedRows, kRows))
        for (int j = 0; j < kRows; ++j) {
          const Tile row = r.first() + i.first() + j, is_row = row < end,
                     slot = where(is_row, fill_absent(slot_of(where(is_row, row, 0)), 0), 0);
          Tile x = X(where(is_row, slot / k, -1), c);
          if (weights) x = cast<f32>(x) * (*weights)(slot);
          P(row + shift, c) = fill_absent(x, 0);
        }
    }
  }
};

}  // namespace tegula::experts
