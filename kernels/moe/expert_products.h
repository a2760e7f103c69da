#pragma once
// Grouped GEMMs over the rows of experts: up projections with the activation in the epilogue, and
// down projections.
#include <optional>

#include "kernels/moe/expert_tiles.h"
#include "kernels/moe/operand_scales.h"
#include "tegula/configured_kernel.h"
#include "tegula/kernels/moe.h"

namespace tegula::kernels::experts {

/// Returns acc + x w^T, or its transpose with `swap_ab`: W's rows are then the MMA's rows. With
/// `promotes`, this k-iteration has a separate accumulator, which is added in f32.
inline Tile accumulate(const ExpertTileConfig& v, const Tile& x, const Tile& w, const Tile& acc,
                       bool promotes = false) {
  if (promotes) return acc + (v.swap_ab ? dot(w, x.T()) : dot(x, w.T()));
  return v.swap_ab ? dot(w, x.T(), acc) : dot(x, w.T(), acc);
}
inline Tile accumulator(const ExpertTileConfig& v) {
  return v.swap_ab ? zeros<f32>(v.bn, v.bm) : zeros<f32>(v.bm, v.bn);
}
/// Returns the accumulator with X's rows along its rows.
inline Tile rows_by_columns(const ExpertTileConfig& v, const Tile& acc) {
  return v.swap_ab ? acc.T() : acc;
}

/// Columns that an epilogue with several inputs or results processes at a time.
inline constexpr int kColumnsAtOnce = 16;

/// Returns the sum plus the bias of the expert's outputs `n`, if it has a bias.
template <class T>
Tile biased(const Tile& sum, const std::optional<In<T, 2>>& bias, const Index& expert,
            const Index& n) {
  return bias ? sum + expand(cast<f32>((*bias)(expert, n)), 0) : sum;
}

/// A = activation(X G^T + gate_bias, X U^T + up_bias) for each expert: X [rows, h], G and U
/// [experts, i, h], A [rows, i]. With `slot_of` [rows] and `choices` per token, X has the tokens'
/// rows [tokens, h], which the GEMM gathers. U is absent without a gate. H [rows, 2 i or i], if
/// given, receives the pre-activations for the backward pass. Operands have type T, biases type
/// Bias; `scales` converts accumulators to values.
template <class T, class Bias = T, class Result = T, class Scales = Unscaled>
struct ExpertUp {
  ExpertActivation activation;
  bool promotes = false;
  ExpertTileConfig config{};

  PlanPatch plan() const { return plan_of(config); }
  void operator()(In<T, 2> X, std::optional<In<i32, 1>> slot_of, Scalar<i32> choices, In<T, 3> G,
                  std::optional<In<T, 3>> U, std::optional<In<Bias, 2>> gate_bias,
                  std::optional<In<Bias, 2>> up_bias, SegmentTables segments, Out<Result, 2> A,
                  std::optional<Out<Result, 2>> H, Scales scales) const {
    const ExpertTileConfig& v = config;
    for (auto [e, m, n] : expert_grid(segments, A.rows(), A.cols(), v)) {
      grid_launch_dependents();
      grid_dependency_wait();
      Tile token, gate = accumulator(v), up = gate;
      if (slot_of) {
        const Tile slot = fill_absent((*slot_of)(m), -1);
        token = where(slot < 0, -1, slot / choices);
      }
      for (auto k : steps(X.cols(), v.bk).stages(v.stages)) {
        const Tile x = slot_of ? X(token, k) : X(m, k);
        gate = accumulate(v, x, G(e, n, k), gate, promotes);
        if (U) up = accumulate(v, x, (*U)(e, n, k), up, promotes);
      }
      gate = rows_by_columns(v, gate), up = rows_by_columns(v, up);
      A.partial();  // rows of dropped choices are not written
      if (H) H->partial();
      // With pre-activations, or with 8-bit results to be scaled and packed, some columns at a
      // time: registers hold the accumulators of the others.
      const int columns = H || scales.stores_8_bits() ? kColumnsAtOnce : v.bn;
      for (int first = 0; first < v.bn; first += columns) {
        const Index c = n.slice(first, columns);
        const auto part = [&](const Tile& acc) { return slice(acc, 1, first, columns); };
        const Tile g = biased(scales.gate_of(part(gate), e, m, c), gate_bias, e, c),
                   u = U ? biased(scales.up_of(part(up), e, m, c), up_bias, e, c) : g;
        if (H) (*H)(m, c) = g;
        if (H && U) (*H)(m, c.shifted(A.cols())) = u;
        A(m, c) = scales.stored(activation.value(g, u));
      }
    }
  }
};

/// Y = A D^T + bias for each expert: A [rows, i], D [experts, h, i], Y [rows, h].
template <class T, class Result = T, class Scales = Unscaled>
struct ExpertDown {
  bool promotes = false;
  ExpertTileConfig config{};

  PlanPatch plan() const { return plan_of(config); }
  void operator()(In<T, 2> A, In<T, 3> D, std::optional<In<Result, 2>> bias, SegmentTables segments,
                  Out<Result, 2> Y, Scales scales) const {
    const ExpertTileConfig& v = config;
    for (auto [e, m, n] : expert_grid(segments, A.rows(), Y.cols(), v)) {
      grid_launch_dependents();
      grid_dependency_wait();
      Tile acc = accumulator(v);
      for (auto k : steps(A.cols(), v.bk).stages(v.stages))
        acc = accumulate(v, A(m, k), D(e, n, k), acc, promotes);
      Y.partial();
      Y(m, n) = biased(scales.down_of(rows_by_columns(v, acc), e, m, n), bias, e, n);
    }
  }
};

}  // namespace tegula::kernels::experts
