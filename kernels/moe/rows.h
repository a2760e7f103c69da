#pragma once
// Copies rows of tokens into the order of experts, and adds up their results per token. Row indices
// are scalars, so that rows are accessed 16 bytes at a time.
#include <optional>

#include "tegula/tegula.h"

namespace tegula::kernels::experts {

/// Columns of a row that a program copies or adds at a time: 16 bytes per thread.
inline constexpr int kRowColumns = 1024;

/// Calls `f` with the index of each of k choices; the loop is unrolled if k is small.
template <class F>
void each_choice(int k, const F& f) {
  constexpr int kUnrolled = 16;
  if (k <= kUnrolled)
    for (int j = 0; j < k; ++j) f(Tile(j));
  else
    for (auto j : steps(k, 1)) f(j.first());
}

/// P [rows, h] = the tokens' rows of X, sorted by expert: row_of(t, j) is the row of choice j of
/// token t, -1 if it is dropped. `weights` scale the rows if experts take weighted inputs. Other
/// rows are not written. A token's row is read once, and written for each of its k choices.
template <class T>
struct PermuteRows {
  void operator()(In<T, 2> X, In<i32, 2> row_of, std::optional<In<f32, 2>> weights,
                  Out<T, 2> P) const {
    for (auto [t, c] : grid(X, 1, kRowColumns)) {
      grid_launch_dependents();
      grid_dependency_wait();
      P.partial();
      const Tile x = X(t, c);
      each_choice(row_of.static_dim(1), [&, t = t, c = c](const Tile& j) {
        P(row_of(t, j), c) = weights ? cast<f32>(x) * (*weights)(t, j) : x;
      });
    }
  }
};

/// O [tokens, h] = sum over slots of weights * the choice's row of Y, in order of the slots:
/// bitwise reproducible. Row -1 is a dropped choice and contributes 0.
template <class T>
struct CombineRows {
  void operator()(In<T, 2> Y, In<i32, 2> row_of, std::optional<In<f32, 2>> weights,
                  Out<T, 2> O) const {
    for (auto [t, c] : grid(O, 1, kRowColumns)) {
      grid_launch_dependents();
      grid_dependency_wait();
      Tile total = zeros<f32>(kRowColumns);
      each_choice(row_of.static_dim(1), [&, t = t, c = c](const Tile& j) {
        const Tile y = cast<f32>(fill_absent(Y(row_of(t, j), c), 0));
        total = weights ? fma((*weights)(t, j), y, total) : total + y;
      });
      O(t, c) = total;
    }
  }
};

}  // namespace tegula::kernels::experts
