#include "kernels/attention/gradient_rows.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>

#include "kernels/attention/query_rows.h"

namespace tegula::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Does the reverse of in_fragment_order.
Tile from_fragment_order(const Tile& sums, int rows, int columns) {
  const Tile parts = sums.reshape({rows / 16, columns / 8, 8, 4, 2, 2});
  return permute(parts, {0, 4, 2, 1, 3, 5}).reshape({rows, columns});
}

/// A block of queries, or keys, of one head: rows of the call's tensors, and of the workspace.
struct RowBlock {
  Index b, h, rows, whole;
};

/// Returns tile `number` of packed sequences, which begin at `starts`.
RowBlock block_of_sequence(const In<i32, 1>& starts, const Index& h, const Tile& number,
                           int block) {
  starts.do_not_specialize(0);
  const auto [sequence, m] = VarlenTileScheduler(starts, block).at(number);
  const Tile first = fill_absent(starts(sequence), 0),
             end = fill_absent(starts(sequence.first() + 1), 0);
  return {Index(Tile(0), 1), h, m.shifted(first).until(end), slice(number * block, block)};
}

/// Records a grid over blocks of `rows` rows of the workspace: of tensors with `batch` entries, or
/// of packed sequences. Rows of the tensors end with their sequence.
void each_block(const std::optional<In<i32, 1>>& starts, const Tile& batch, const Tile& heads,
                const Tile& rows, const std::function<void(const RowBlock&)>& body) {
  if (!starts) {
    for (auto [b, h, m] : grid({batch, heads, rows}, 1, 1, kGradientRows)) body({b, h, m, m});
    return;
  }
  for (auto [h, i] : grid({heads, cdiv(rows, kGradientRows)}, 1, 1))
    body(block_of_sequence(*starts, h, i.first(), kGradientRows));
}

template <class T>
constexpr auto kPrepareRows = [](const GradientRows<T>& x) {
  if (!x.lse) x.L.partial(), x.D.partial();
  each_block(x.starts, x.L.dim(0), x.L.dim(1), x.L.dim(2), [&](const RowBlock& at) {
    const auto& [b, h, m, whole] = at;
    grid_launch_dependents();
    const Index tile = slice(whole.first() / kGradientRows, 1);
    if (x.dQ) (*x.dQ)(b, h, tile, all) = zeros<f32>(x.dQ->static_dim(3));
    const Tile grad = fill_absent(x.dO(b, h, m, all), 0);
    if (x.Q) {
      (*x.whole_Q)(b, h, whole, all) = fill_absent((*x.Q)(b, h, m, all), 0);
      (*x.whole_dO)(b, h, whole, all) = grad;
    }
    if (!x.lse) return;
    const Tile o = fill_absent(x.O(b, h, m, all), 0);
    Tile d = sum(cast<f32>(o) * cast<f32>(grad), axis(1));
    if (x.dlse) d = d - fill_absent((*x.dlse)(b, h, m), 0);
    const Tile lse = fill_absent((*x.lse)(b, h, m), -kInfinity);
    const Tile has_no_keys = lse == -kInfinity;
    d = where(has_no_keys, 0.0f, d);
    x.L(b, h, whole) = where(has_no_keys, kInfinity, lse * std::numbers::log2e_v<float>);
    x.D(b, h, whole) = d;
    if (!x.partial) return;
    const Tile share = exp(fill_absent((*x.sinks)(h), 0) - lse);
    (*x.partial)(b, h, tile) = -sum(where(has_no_keys, 0.0f, share * d), axis(0));
  });
};

template <class T>
constexpr auto kCopyKeys = [](In<T, 4> K, In<i32, 1> starts, Out<T, 4> whole) {
  for (auto [h, i] : grid({whole.dim(1), whole.dim(2) / kGradientKeys}, 1, 1)) {
    const RowBlock at = block_of_sequence(starts, h, i.first(), kGradientKeys);
    whole(at.b, at.h, at.whole, all) = fill_absent(K(at.b, at.h, at.rows, all), 0);
  }
};

template <class T>
constexpr auto kStoreQueries = [](In<f32, 4> sums, Out<T, 4> dQ, Scalar<f32> scale,
                                  const std::optional<In<i32, 1>>& starts) {
  if (starts) dQ.partial();
  const int columns = backward_columns(dQ.static_dim(3)),
            block = static_cast<int>(sums.static_dim(3)) / columns;
  const Tile rows = starts ? sums.dim(2) * block : dQ.dim(2);
  each_block(starts, dQ.dim(0), dQ.dim(1), rows, [&](const RowBlock& at) {
    grid_dependency_wait();
    for (int i = 0; i < kGradientRows; i += block) {
      int first = 0;
      for (const int part : backward_parts(dQ.static_dim(3))) {
        const Tile of_part =
            sums(at.b, at.h, (at.whole.first() + i) / block, slice(first * block, part * block));
        dQ(at.b, at.h, at.rows.slice(i, block), slice(first, part)) =
            scale * (block == kGradientRows ? from_fragment_order(of_part, block, part)
                                            : from_fragment_order(of_part, part, block).T());
        first += part;
      }
    }
  });
};

}  // namespace

std::vector<int> backward_parts(std::int64_t dim) {
  const auto columns = static_cast<unsigned>(std::max<std::int64_t>(dim, 16)),
             all = std::bit_ceil(columns), most = all / 2,
             rest = std::bit_ceil(std::max(columns - most, 16U));
  if (columns <= 64 || columns == all || rest == most) return {static_cast<int>(all)};
  return {static_cast<int>(most), static_cast<int>(rest)};
}

int backward_columns(std::int64_t dim) {
  const std::vector<int> parts = backward_parts(dim);
  return std::accumulate(parts.begin(), parts.end(), 0);
}

Tile in_fragment_order(const Tile& sums) {
  const int rows = static_cast<int>(sums.shape()[0]), columns = static_cast<int>(sums.shape()[1]);
  // Groups of 16 rows, halves of them, rows (a quad of threads each); groups of 8 columns, threads
  // of the quad, pairs of columns.
  const Tile parts = sums.reshape({rows / 16, 2, 8, columns / 8, 4, 2});
  return permute(parts, {0, 3, 2, 4, 1, 5}).reshape({rows * columns});
}

template <class T>
RowKernels<T>::RowKernels()
    : rows(kernel("attention_gradient_rows", kPrepareRows<T>)),
      whole_keys(kernel("attention_whole_keys", kCopyKeys<T>)),
      query_gradients(kernel("attention_query_gradients", kStoreQueries<T>)) {}

KernelOf<In<f32, 3>, Out<f32, 1>> sink_gradients() {
  return kernel("attention_sink_gradients", [](In<f32, 3> partial, Out<f32, 1> dsinks) {
    constexpr int kTiles = 256;  // that are added at a time
    for (auto h : grid(dsinks, 1)) {
      Tile total = full<f32>(0);
      for (auto b : steps(partial.dim(0), 1))
        for (auto m : steps(partial.dim(2), kTiles))
          total = total + sum(fill_absent(partial(b, h, m), 0), axis(0));
      dsinks(h) = total;
    }
  });
}

template struct RowKernels<bf16>;
template struct RowKernels<f16>;

}  // namespace tegula::kernels
