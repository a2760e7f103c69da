#pragma once
// Grouped GEMMs over the rows of experts: up projections with the activation in the epilogue, and
// down projections.
#include <optional>

#include "kernels/moe/expert_tiles.h"
#include "tegula/kernel_variants.h"
#include "tegula/kernels/moe.h"

namespace tegula::experts {

/// acc + rows of X times those of W, along k: with `swap_ab`, W's rows lie along the MMA's.
inline Tile accumulate(const ExpertTileConfig& v, const Tile& x, const Tile& w, const Tile& acc) {
  return v.swap_ab ? dot(w, x.T(), acc) : dot(x, w.T(), acc);
}
inline Tile accumulator(const ExpertTileConfig& v) {
  return v.swap_ab ? zeros<f32>(v.bn, v.bm) : zeros<f32>(v.bm, v.bn);
}
/// The accumulator with rows along its rows.
inline Tile rows_by_columns(const ExpertTileConfig& v, const Tile& acc) {
  return v.swap_ab ? acc.T() : acc;
}

/// The sum and the bias of the expert's outputs `n`, where there is one.
template <class T>
Tile biased(const Tile& sum, const std::optional<In<T, 2>>& bias, const Tile& expert,
            const Index& n) {
  return bias ? sum + expand(cast<f32>((*bias)(expert, n)), 0) : sum;
}

/// A = activation(X G^T + gate_bias, X U^T + up_bias) of each expert: X [rows, h], G and U
/// [experts, i, h], A [rows, i]. Without a gate there is no U. H [rows, 2 i or i] takes the
/// pre-activations where backward needs them.
template <class T>
struct ExpertUp {
  ExpertActivation activation;

  void operator()(In<T, 2> X, In<T, 3> G, std::optional<In<T, 3>> U,
                  std::optional<In<T, 2>> gate_bias, std::optional<In<T, 2>> up_bias,
                  Segments segments, Out<T, 2> A, std::optional<Out<T, 2>> H) const {
    const auto v = tuned<ExpertTileConfig>();
    const ExpertTiles tiles(segments, v.bm);
    const Tile width = G.dim(1);
    for (auto [i, n] : grid({tiles.bound(X.rows()), width}, 1, v.bn, group_m(v.group_m))) {
      grid_dependency_wait();
      A.partial();  // rows of dropped choices
      const auto place = tiles.at(i.first());
      Tile gate = accumulator(v), up = gate;
      for (auto k : steps(place.of(X.cols()), v.bk).stages(v.stages)) {
        const Tile x = X(place.rows, k);
        gate = accumulate(v, x, G(place.expert, n, k), gate);
        if (U) up = accumulate(v, x, (*U)(place.expert, n, k), up);
      }
      gate = biased(rows_by_columns(v, gate), gate_bias, place.expert, n);
      up = U ? biased(rows_by_columns(v, up), up_bias, place.expert, n) : gate;
      if (H) {
        H->partial();
        (*H)(place.rows, n) = place.own(gate);
        if (U) (*H)(place.rows, n.shifted(width)) = place.own(up);
      }
      A(place.rows, n) = place.own(activation.value(gate, up));
    }
  }
};

/// Y = A D^T + bias of each expert: A [rows, i], D [experts, h, i], Y [rows, h].
template <class T>
struct ExpertDown {
  void operator()(In<T, 2> A, In<T, 3> D, std::optional<In<T, 2>> bias, Segments segments,
                  Out<T, 2> Y) const {
    const auto v = tuned<ExpertTileConfig>();
    const ExpertTiles tiles(segments, v.bm);
    for (auto [i, n] : grid({tiles.bound(A.rows()), D.dim(1)}, 1, v.bn, group_m(v.group_m))) {
      grid_dependency_wait();
      Y.partial();
      const auto place = tiles.at(i.first());
      Tile acc = accumulator(v);
      for (auto k : steps(place.of(A.cols()), v.bk).stages(v.stages))
        acc = accumulate(v, A(place.rows, k), D(place.expert, n, k), acc);
      Y(place.rows, n) = place.own(biased(rows_by_columns(v, acc), bias, place.expert, n));
    }
  }
};

}  // namespace tegula::experts
