#pragma once
// Rows of tokens brought into the order of experts, and their results added up by token.
#include <optional>

#include "tegula/tegula.h"

namespace tegula::experts {

/// P [rows, h] = the tokens' rows of X, sorted by expert: row r is that of choice slot_of(r), which
/// is token * k + slot. `weights` [tokens * k] scale them where experts take weighted inputs. Rows
/// behind the last segment stay as they are.
template <class T>
struct PermuteRows {
  void operator()(In<T, 2> X, In<i32, 1> slot_of, In<i32, 1> offsets,
                  std::optional<In<f32, 1>> weights, Out<T, 2> P, int k) const {
    const int experts = offsets.static_dim(0) - 1;
    for (auto [r, c] : grid(P, 8, 512)) {
      grid_dependency_wait();
      P.partial();
      const Tile end = fill_absent(offsets(experts), 0),
                 slot = where(r < end, fill_absent(slot_of(r), 0), 0);
      Tile x = X(expand(slot / k, 1), expand(c, 0));
      if (weights) x = cast<f32>(x) * expand((*weights)(slot), 1);
      P(r, c) = crop(x, 0, r.first(), end);
    }
  }
};

/// O [tokens, h] = sum over slots of weights * Y's row of that choice, in order of the slots: the
/// same bits in every run. Row -1 is a dropped choice and counts as 0.
template <class T>
struct CombineRows {
  void operator()(In<T, 2> Y, In<i32, 2> row_of, std::optional<In<f32, 2>> weights,
                  Out<T, 2> O) const {
    const int k = row_of.static_dim(1);
    for (auto [t, c] : grid(O, 4, 512)) {
      grid_dependency_wait();
      Tile total = zeros<f32>(4, 512);
      for (int j = 0; j < k; ++j) {
        const Tile row = fill_absent(row_of(t, j), -1),
                   y = cast<f32>(Y(expand(row, 1), expand(c, 0)));
        total = weights ? fma(expand((*weights)(t, j), 1), y, total) : total + y;
      }
      O(t, c) = total;
    }
  }
};

}  // namespace tegula::experts
