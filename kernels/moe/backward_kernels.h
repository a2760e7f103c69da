#pragma once
// Kernels of the backward pass, with X, the pre-activations and the gradient of Y as inputs; all
// rows are sorted by expert, and either packed, as in the forward pass, or aligned.
#include <optional>

#include "kernels/moe/aligned_rows.h"
#include "kernels/moe/expert_products.h"
#include "tegula/configured_kernel.h"
#include "tegula/kernels/moe.h"

namespace tegula::kernels::experts {

/// Columns of a row that a program processes at a time: 16 bytes per thread of one warp.
inline constexpr int kActivationColumns = 256;

/// Gradients at the activation, for the row of each choice (token, slot), -1 if it has none. With
/// dA = dY D of the row, computes: dG and dU, gradients of the pre-activations G and U, scaled by
/// the choice's weight; A, the activations, scaled likewise, for the gradient of D; and dots <dA,
/// A>, the gradient of the weight. Without `weights` there are no scales and no dots. Rows of dG,
/// dU and A are aligned, others are packed. This element-wise work is not fused into the GEMM: next
/// to accumulators, threads lack registers for enough loads in flight to saturate memory.
template <class T>
struct ActivationGradient {
  ExpertActivation activation;

  void operator()(In<T, 2> dA, In<T, 2> G, std::optional<In<T, 2>> U,
                  std::optional<In<f32, 2>> weights, In<i32, 2> row_of, In<i32, 2> ids,
                  AlignedRows aligned, Out<T, 2> dG, std::optional<Out<T, 2>> dU, Out<T, 2> A,
                  std::optional<Out<f32, 2>> dots) const {
    for (auto [t, j] : grid(row_of, 1, 1)) {
      grid_dependency_wait();
      const Tile packed = row_of(t, j), row = aligned.place_of(packed, ids(t, j)),
                 scale = weights ? Tile((*weights)(t, j)) : Tile(1.0f);
      Tile dot = full<f32>(0.0f);
      dG.partial(), A.partial();
      if (dU) dU->partial();
      for (auto c : steps(G.cols(), kActivationColumns)) {
        const auto loaded = [&, c = c](const In<T, 2>& x) {
          return cast<f32>(fill_absent(x(packed, c), 0));
        };
        const Tile d = loaded(dA), g = loaded(G), u = U ? loaded(*U) : g,
                   a = activation.value(g, u), scaled = d * scale;
        dG(row, c) = derivative(a, g, scaled), A(row, c) = a * scale;
        if (dU) (*dU)(row, c) = derivative(a, u, scaled);
        if (dots) dot = dot + sum(d * a);
      }
      if (dots) (*dots)(t, j) = dot;
    }
  }
};

/// Gradients of an expert's GEMM inputs, packed: dH W, with aligned rows dH.
template <class T>
struct RowGradient {
  ExpertTileConfig config{};

  PlanPatch plan() const { return plan_of(config); }
  void operator()(In<T, 2> dH, In<T, 3> W, SegmentTables segments, AlignedRows aligned,
                  Out<T, 2> dP) const {
    const ExpertTileConfig& v = config;
    for (auto [e, m, n] : expert_grid(segments, dP.rows(), dP.cols(), v)) {
      grid_dependency_wait();
      const Index from = aligned.reaching(e, m);
      Tile sum = zeros<f32>(v.bm, v.bn);
      for (auto j : steps(dH.cols(), v.bk).stages(v.stages))
        sum = dot(fill_absent(dH(from, j), 0), W(e, j, n), sum);
      dP.partial();
      dP(m, n) = sum;
    }
  }
};

/// dW[e] (+)= L^T S over the aligned rows of expert e; `adds` accumulates into dW. An expert
/// without rows gives zeros.
template <class T, class O>
struct WeightGradient {
  bool adds = false;
  ExpertTileConfig config{};

  void operator()(In<T, 2> L, In<T, 2> S, AlignedRows aligned, InOut<O, 3> dW) const {
    const ExpertTileConfig& v = config;
    for (auto [e, m, n] : grid(dW, 1, v.bm, v.bn)) {
      grid_dependency_wait();
      Tile sum = zeros<f32>(v.bm, v.bn);
      for (auto r : steps(aligned.first(e), aligned.end(e), kAlignedRows).stages(v.stages))
        sum = dot(L(r, m).T(), S(r, n), sum);
      if (adds)
        dW(e, m, n) += sum;
      else
        dW(e, m, n) = sum;
    }
  }
};

/// db[e] (+)= sum of the aligned rows of expert e, each scaled by its choice's weight if `weights`
/// are given; `adds` accumulates into db.
template <class T, class O>
struct BiasGradient {
  bool adds = false;

  void operator()(In<T, 2> rows, std::optional<In<f32, 1>> weights, In<i32, 1> slot_of,
                  AlignedRows aligned, InOut<O, 2> db) const {
    for (auto [e, n] : grid(db, 1, 128)) {
      grid_dependency_wait();
      Tile total = zeros<f32>(128);
      const In<i32, 1>& offsets = aligned.offsets;
      for (auto r : steps(offsets(e), offsets(e.shifted(1)), 32).bounded()) {
        Tile x = cast<f32>(rows(r.shifted(aligned.shift(e)), n));
        if (weights) x = x * (*weights)(fill_absent(slot_of(r), 0))(all, none);
        total = total + sum(x, 0);
      }
      if (adds)
        db(e, n) += total;
      else
        db(e, n) = total;
    }
  }
};

/// Gradients of the weights of choices [tokens, k]: `dots`, if given, plus the dot product of a
/// token's row of `of_tokens` with a row of `table`: the choice's packed row or, with `ids`, its
/// expert. It is 0 for a choice without a row.
template <class T>
struct ChoiceGradient {
  void operator()(std::optional<In<f32, 2>> dots, In<T, 2> of_tokens, In<T, 2> table,
                  In<i32, 2> row_of, std::optional<In<i32, 2>> ids, Out<f32, 2> dweights) const {
    for (auto [t, j] : grid(dweights, 1, 1)) {
      grid_dependency_wait();
      Tile total = dots ? Tile((*dots)(t, j)) : full<f32>(0.0f);
      const Tile packed = row_of(t, j), row = ids ? where(packed >= 0, (*ids)(t, j), -1) : packed;
      for (auto c : steps(table.cols(), 512))
        total = total + sum(cast<f32>(of_tokens(t, c)) * cast<f32>(table(row, c)));
      dweights(t, j) = total;
    }
  }
};

/// Gradients of the logits, computed by the router's gradient function.
struct LogitGradient {
  Router router;

  void operator()(In<f32, 2> logits, std::optional<In<f32, 1>> bias, In<i32, 2> ids,
                  In<f32, 2> dweights, Out<f32, 2> dlogits) const {
    constexpr int kTokens = 8;
    const int experts = logits.static_dim(1);
    for (auto t : grid(rows(logits), kTokens)) {
      grid_dependency_wait();
      Tile z = logits(t, whole(experts));
      if (bias) z = z + (*bias)(whole(experts))(none, all);
      // Choices of shared experts follow those of the router.
      dlogits(t, whole(experts)) = router.gradient(z, t, first(ids, t), first(dweights, t));
    }
  }

 private:
  template <class V>
  Tile first(const V& choices, const Index& t) const {
    return router.k == 1 ? choices(t, 0)(all, none) : choices(t, slice(0, router.k));
  }
};

}  // namespace tegula::kernels::experts
