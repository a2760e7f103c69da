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

  /// An expert is an Index, or a Tile of its number.
  template <class Expert>
  Tile first(const Expert& expert) const {
    return first_tiles(expert) * kAlignedRows;
  }
  Tile end(const Index& expert) const { return first(expert.shifted(1)); }
  /// Number of an expert's aligned row less that of the packed one.
  template <class Expert>
  Tile shift(const Expert& expert) const {
    return first(expert) - offsets(expert);
  }
  /// The aligned row of a choice's packed one, -1 where it has none.
  Tile place_of(const Tile& packed, const Tile& expert) const {
    const Tile is_row = packed >= 0;
    return where(is_row, packed + shift(where(is_row, expert, 0)), -1);
  }
  /// The aligned rows of a tile of packed ones, without an end: behind the expert's rows are those
  /// of others. A product that reads them need not mask its results, where what is stored of it
  /// ends with the expert.
  Index reaching(const Index& expert, const Index& packed) const {
    return slice(packed.first() + shift(expert), packed.block());
  }
};

/// PermuteRows of the tokens' rows and of their gradients, aligned: `ids` are the choices' experts.
template <class T>
struct PermuteAlignedRows {
  void operator()(In<T, 2> X, In<T, 2> dY, In<i32, 2> row_of, In<i32, 2> ids, AlignedRows aligned,
                  std::optional<In<f32, 2>> weights, Out<T, 2> P, Out<T, 2> dP) const {
    for (auto [t, c] : grid(X, 1, kRowColumns)) {
      grid_dependency_wait();
      P.partial(), dP.partial();
      const Tile x = X(t, c), d = dY(t, c);
      each_choice(row_of.static_dim(1), [&, t = t, c = c](const Tile& j) {
        const Tile row = aligned.place_of(row_of(t, j), ids(t, j));
        P(row, c) = weights ? cast<f32>(x) * (*weights)(t, j) : x;
        dP(row, c) = d;
      });
    }
  }
};

/// Zeros in the aligned rows of L and R that are left over; R has no more columns than L.
template <class T>
struct ClearLeftOverRows {
  void operator()(AlignedRows aligned, Out<T, 2> L, Out<T, 2> R) const {
    for (auto [e, c] : grid({aligned.offsets.dim(0) - 1, L.dim(1)}, 1, kRowColumns)) {
      grid_dependency_wait();
      L.partial(), R.partial();
      const Tile taken = aligned.offsets(e.shifted(1)) + aligned.shift(e);
      for (auto row : steps(taken, aligned.end(e), 1))
        L(row, c) = zeros<T>(kRowColumns), R(row, c) = zeros<T>(kRowColumns);
    }
  }
};

}  // namespace tegula::experts
