#include "kernels/attention/gradient_rows.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numbers>

namespace tegula::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// Tiles of partial sums that are added at a time.
constexpr int kAddedTiles = 256;

/// Dimensions of a tile by the thread that holds an element after an MMA: groups of 16 rows, rows
/// of 8 (`row`), groups of 8 columns, pairs of columns (`lane`).
struct FragmentDims {
  static constexpr int kGroups = kGradientRows / 16, kHalves = 2, kRows = 8, kLanes = 4, kPair = 2;
};

/// Does the reverse of in_fragment_order.
Tile from_fragment_order(const Tile& sums) {
  using F = FragmentDims;
  const int columns = static_cast<int>(sums.shape()[0]) / kGradientRows;
  const Tile parts =
      sums.reshape({F::kGroups, columns / 8, F::kRows, F::kLanes, F::kHalves, F::kPair});
  return permute(parts, {0, 4, 2, 1, 3, 5}).reshape({kGradientRows, columns});
}

}  // namespace

int backward_columns(std::int64_t dim) {
  return static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(dim, 16))));
}

Tile in_fragment_order(const Tile& sums) {
  using F = FragmentDims;
  const int columns = static_cast<int>(sums.shape()[1]);
  const Tile parts =
      sums.reshape({F::kGroups, F::kHalves, F::kRows, columns / 8, F::kLanes, F::kPair});
  return permute(parts, {0, 3, 2, 4, 1, 5}).reshape({kGradientRows * columns});
}

template <class T>
KernelOf<ForwardResults<T>, GradientRows, SinkGradients> gradient_rows() {
  return kernel("attention_gradient_rows", [](const ForwardResults<T>& x, const GradientRows& to,
                                              const SinkGradients& sinks) {
    if (!x.lse) to.L.partial(), to.D.partial();
    for (auto [b, h, m] : grid(to.L, 1, 1, kGradientRows)) {
      grid_launch_dependents();
      if (to.dQ) (*to.dQ)(b, h, m.first() / kGradientRows, all) = zeros<f32>(to.dQ->static_dim(3));
      if (!x.lse) continue;
      const Tile o = fill_absent(x.O(b, h, m, all), 0), grad = fill_absent(x.dO(b, h, m, all), 0);
      Tile d = sum(cast<f32>(o) * cast<f32>(grad), axis(1));
      if (x.dlse) d = d - fill_absent((*x.dlse)(b, h, m), 0);
      const Tile lse = fill_absent((*x.lse)(b, h, m), -kInfinity);
      const Tile has_no_keys = lse == -kInfinity;
      d = where(has_no_keys, 0.0f, d);
      to.L(b, h, m) = where(has_no_keys, kInfinity, lse * std::numbers::log2e_v<float>);
      to.D(b, h, m) = d;
      if (!sinks.partial) continue;
      const Tile share = exp(fill_absent((*sinks.sinks)(h), 0) - lse);
      const Tile of_row = where(has_no_keys, 0.0f, share * d);
      (*sinks.partial)(b, h, m.first() / kGradientRows) = -sum(of_row, axis(0));
    }
  });
}

template <class T>
KernelOf<In<f32, 4>, Out<T, 4>, Scalar<f32>> query_gradients() {
  return kernel("attention_query_gradients", [](In<f32, 4> sums, Out<T, 4> dQ, Scalar<f32> scale) {
    for (auto [b, h, m] : grid({dQ.dim(0), dQ.dim(1), dQ.dim(2)}, 1, 1, kGradientRows)) {
      grid_dependency_wait();
      const int columns = static_cast<int>(sums.static_dim(3)) / kGradientRows;
      dQ(b, h, m, slice(0, columns)) =
          from_fragment_order(sums(b, h, m.first() / kGradientRows, all)) * scale;
    }
  });
}

KernelOf<In<f32, 3>, Out<f32, 1>> sink_gradients() {
  return kernel("attention_sink_gradients", [](In<f32, 3> partial, Out<f32, 1> dsinks) {
    for (auto h : grid(dsinks, 1)) {
      Tile total = full<f32>(0);
      for (auto b : steps(partial.dim(0), 1))
        for (auto m : steps(partial.dim(2), kAddedTiles))
          total = total + sum(fill_absent(partial(b, h, m), 0), axis(0));
      dsinks(h) = total;
    }
  });
}

template KernelOf<ForwardResults<bf16>, GradientRows, SinkGradients> gradient_rows<bf16>();
template KernelOf<ForwardResults<f16>, GradientRows, SinkGradients> gradient_rows<f16>();
template KernelOf<In<f32, 4>, Out<bf16, 4>, Scalar<f32>> query_gradients<bf16>();
template KernelOf<In<f32, 4>, Out<f16, 4>, Scalar<f32>> query_gradients<f16>();

}  // namespace tegula::kernels
