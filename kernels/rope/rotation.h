#pragma once
// Rotation of the pairs of a head by the angles of its position, for kernels that store the result.
#include <optional>

#include "tegula/kernels/rope.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

struct RotatedPair {
  Tile first, second;

  RotatedPair by(const Tile& cos, const Tile& sin) const {
    return {first * cos - second * sin, second * cos + first * sin};
  }
};

/// Splits pairs of neighbours, which are in one 16-byte access of a thread: sums of a pair with one
/// element set to 0 need no exchange between threads.
RotatedPair neighbours(const Tile& t);
/// Returns the pairs as neighbours in one row.
Tile interleave(const RotatedPair& p);

/// Angles of each token, for all of its heads. A position outside the tables has an angle of 0.
struct Angles {
  Tile cos, sin;
};

struct RopeTableViews {
  In<f32, 2> cos, sin;

  /// Returns the angles of tokens, whose rows in the tables are `rows` or, if given, `positions`.
  Angles of(const Index& rows, const std::optional<Tile>& positions, const Index& columns,
            bool has_heads) const {
    const auto read = [&](const In<f32, 2>& table, float outside) {
      if (!positions) return fill_absent(table(rows, columns), outside);
      const Tile angles = table(*positions, columns);
      if (positions->rank() == 0) return fill_absent(angles, outside);
      // A gather reads 0 outside of the table.
      return where(expand(*positions >= 0 && *positions < table.dim(0), 1), angles, outside);
    };
    const auto for_heads = [&](const Tile& row) {
      return row.rank() == 2 && has_heads ? row.expand(1) : row;
    };
    return {for_heads(read(cos, 1)), for_heads(read(sin, 0))};
  }
};

/// Loads the columns of heads with `dim` elements, rotates the first 2 * half of them and stores
/// them all: `load(columns)` and `store(columns, tile)`.
template <class Load, class Store>
void rotate_columns(RopePairs pairs, int half, int dim, const Angles& by, const Load& load,
                    const Store& store) {
  const Index first = slice(0, half), second = slice(half, half), rotated = slice(0, 2 * half);
  if (pairs == RopePairs::half_split) {
    const auto [low, high] =
        RotatedPair{cast<f32>(load(first)), cast<f32>(load(second))}.by(by.cos, by.sin);
    store(first, low), store(second, high);
  } else {
    store(rotated, interleave(neighbours(cast<f32>(load(rotated))).by(by.cos, by.sin)));
  }
  if (dim == 2 * half) return;
  const Index rest = slice(2 * half, dim - 2 * half);
  store(rest, load(rest));
}

/// Throws T1662 unless the tables rotate heads of `dim` elements of so many tokens, which use as
/// many rows of the tables without `positions`, or any rows with `any_rows`.
void check_rope_tables(const char* caller, const RopeTables& tables, std::int64_t tokens,
                       std::int64_t dim, bool any_rows);

}  // namespace tegula::kernels
