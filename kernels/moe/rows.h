#pragma once
// Rows of tokens brought into the order of experts, and their results added up by token. A row's
// number is a scalar, so that its elements are read 16 bytes at a time.
#include <optional>

#include "tegula/tegula.h"

namespace tegula::experts {

/// Columns of a row that a program copies or adds up at once: 16 bytes a thread.
inline constexpr int kRowColumns = 1024;

/// P [rows, h] = the tokens' rows of X, sorted by expert: row r is that of choice slot_of(r), which
/// is token * k + slot. `weights` [tokens * k] scale them where experts take weighted inputs. Rows
/// behind the last segment stay as they are.
template <class T>
struct PermuteRows {
  void operator()(In<T, 2> X, In<i32, 1> slot_of, In<i32, 1> offsets,
                  std::optional<In<f32, 1>> weights, Out<T, 2> P, int k) const {
    constexpr int kRows = 4;  // whose reads are under way together
    const int experts = offsets.static_dim(0) - 1;
    for (auto [rows, c] : grid(P, kRows, kRowColumns)) {
      grid_launch_dependents();
      grid_dependency_wait();
      P.partial();
      const Tile end = fill_absent(offsets(experts), 0);
      for (int i = 0; i < kRows; ++i) {
        const Tile r = rows.first() + i, is_row = r < end,
                   slot = where(is_row, fill_absent(slot_of(r), 0), 0);
        Tile x = X(slot / k, c);
        if (weights) x = cast<f32>(x) * (*weights)(slot);
        P(where(is_row, r, -1), c) = x;  // outside: dropped
      }
    }
  }
};

/// O [tokens, h] = sum over slots of weights * Y's row of that choice, in order of the slots: the
/// same bits in every run. Row -1 is a dropped choice and counts as 0.
template <class T>
struct CombineRows {
  void operator()(In<T, 2> Y, In<i32, 2> row_of, std::optional<In<f32, 2>> weights,
                  Out<T, 2> O) const {
    constexpr int kUnrolled = 16;
    const int k = row_of.static_dim(1);
    for (auto [t, c] : grid(O, 1, kRowColumns)) {
      grid_launch_dependents();
      grid_dependency_wait();
      Tile total = zeros<f32>(kRowColumns);
      const auto add = [&, t = t, c = c](const Tile& j) {
        const Tile y = cast<f32>(fill_absent(Y(row_of(t, j), c), 0));
        total = weights ? fma((*weights)(t, j), y, total) : total + y;
      };
      if (k <= kUnrolled)
        for (int j = 0; j < k; ++j) add(Tile(j));
      else
        for (auto j : steps(k, 1)) add(j.first());
      O(t, c) = total;
    }
  }
};

}  // namespace tegula::experts
