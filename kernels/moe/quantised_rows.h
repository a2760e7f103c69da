#pragma once
// 8-bit rows of experts, with a scale per row.
#include <optional>

#include "kernels/moe/rows.h"
#include "kernels/quantise/fp8_scale.h"
#include "kernels/row_tiles.h"

namespace tegula::kernels::experts {

/// P [rows, h] = the tokens' rows of X in f8e4m3, sorted by expert, and their scales [rows],
/// computed from the row's largest magnitude, or equal to the given one [1]. A token is read and
/// quantised once, and stored for each of its choices; `weights` [tokens, k], for experts with
/// weighted inputs, multiply the scales. Row -1 is a dropped choice.
template <class T>
struct PermuteQuantisedRows {
  void operator()(In<T, 2> X, In<i32, 2> row_of, std::optional<In<f32, 2>> weights,
                  std::optional<In<f32, 1>> given, Out<f8e4m3, 2> P, Out<f32, 1> scales) const {
    for (auto t : grid(rows(X), 1)) {
      grid_dependency_wait();
      P.partial(), scales.partial();
      const Tile x = cast<f32>(X(t, all));
      Fp8Scale scale;
      if (given)
        scale.value = (*given)(0), scale.inverse = 1.0f / scale.value;
      else
        scale = scale_of<f8e4m3>(largest_of(x, -1), false);
      const Tile q = cast<f8e4m3>(x * scale.inverse);
      each_choice(row_of.static_dim(1), [&, t = t](const Tile& j) {
        const Tile row = row_of(t, j);
        P(row, all) = q;
        scales(row) = weights ? scale.value * (*weights)(t, j) : scale.value;
      });
    }
  }
};

/// Q [rows, i] = activations A in f8e4m3, with a scale [rows] from each row's largest magnitude.
/// Rows after the last segment are quantised from unspecified contents of A.
template <class T>
struct QuantiseActivations {
  void operator()(In<T, 2> A, Out<f8e4m3, 2> Q, Out<f32, 1> scales, int tile_rows) const {
    for (auto r : grid(rows(Q), tile_rows)) {
      grid_dependency_wait();
      const Tile a = cast<f32>(A(r, all));
      const Fp8Scale scale = scale_of<f8e4m3>(largest_of(a, -1), false);
      Q(r, all) = a * along_row(scale.inverse);
      scales(r) = scale.value;
    }
  }
};

}  // namespace tegula::kernels::experts
