#pragma once
// Rows of the backward pass, in which the rows of each expert begin at a multiple of 64.
#include <optional>

#include "kernels/moe/rows.h"

namespace tegula::kernels::experts {

/// Rows that one iteration of a weight gradient contracts.
inline constexpr int kAlignedRows = 64;

/// Positions of aligned rows: those of expert e begin at first(e) in the order of the packed rows,
/// and end at end(e); padding rows are 0. The contraction of a weight gradient then consists of
/// full iterations, whose operands TMA loads without a mask.
struct AlignedRows {
  In<i32, 1> offsets;      ///< [experts + 1]: offsets of the packed rows
  In<i32, 1> first_tiles;  ///< [experts + 1]: tiles of kAlignedRows rows before each expert's

  /// Returns the first row. An expert is an Index, or a Tile with its number.
  template <class Expert>
  Tile first(const Expert& expert) const {
    return first_tiles(expert) * kAlignedRows;
  }
  Tile end(const Index& expert) const { return first(expert.shifted(1)); }
  /// Returns the index of an expert's aligned row minus that of its packed row.
  template <class Expert>
  Tile shift(const Expert& expert) const {
    return first(expert) - offsets(expert);
  }
  /// Returns the aligned row of a choice's packed row, or -1 if it has none.
  Tile place_of(const Tile& packed, const Tile& expert) const {
    const Tile is_row = packed >= 0;
    return where(is_row, packed + shift(where(is_row, expert, 0)), -1);
  }
  /// Returns the aligned rows of a tile of packed rows, without masking: rows after the expert's
  /// belong to other experts. GEMMs on these rows need no mask if the rows that they store end with
  /// the expert.
  Index reaching(const Index& expert, const Index& packed) const {
    return slice(packed.first() + shift(expert), packed.block());
  }
};

/// PermuteRows for the tokens' rows and their gradients, aligned; `ids` are the choices' experts.
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

/// Clears the padding rows of L and R; R has at most as many columns as L.
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

}  // namespace tegula::kernels::experts
