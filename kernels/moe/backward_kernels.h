#pragma once
// Kernels of backward, from rows of X, the pre-activations and the gradient of Y; all rows are
// sorted by expert, and either packed, as those of forward, or aligned.
#include <optional>

#include "kernels/moe/aligned_rows.h"
#include "kernels/moe/expert_products.h"
#include "tegula/configured_kernel.h"
#include "tegula/kernels/moe.h"

namespace tegula::experts {

/// Gradients behind the activation. With dA = dY D of each expert: dG and dU, of the
/// pre-activations, scaled by the rows' weights; A the activations, scaled likewise, which the
/// gradient of D is made of; parts [rows, tiles of columns], whose sum along a row is the gradient
/// of its weight. Without `weights` (of choices) nothing is scaled, and there are no parts. Rows of
/// dY, dG, dU and A are aligned, the others packed.
template <class T>
struct HiddenGradient {
  ExpertActivation activation;
  ExpertTileConfig config{};

  void operator()(In<T, 2> dY, In<T, 3> D, In<T, 2> G, std::optional<In<T, 2>> U,
                  std::optional<In<f32, 1>> weights, In<i32, 1> slot_of, SegmentTables segments,
                  AlignedRows aligned, Out<T, 2> dG, std::optional<Out<T, 2>> dU, Out<T, 2> A,
                  std::optional<Out<f32, 2>> parts) const {
    const ExpertTileConfig& v = config;
    for (auto [e, m, n] : expert_grid(segments, G.rows(), G.cols(), v)) {
      grid_dependency_wait();
      const Index to = aligned.of(e, m), from = aligned.reaching(e, m);
      Tile da = zeros<f32>(v.bm, v.bn);
      for (auto c : steps(dY.cols(), v.bk).stages(v.stages))
        da = dot(fill_absent(dY(from, c), 0), D(e, c, n), da);
      Tile scale, part = zeros<f32>(v.bm);
      if (weights) scale = fill_absent((*weights)(fill_absent(slot_of(m), -1)), 0)(all, none);
      const auto scaled = [&](const Tile& x) { return weights ? x * scale : x; };
      dG.partial(), A.partial();
      if (dU) dU->partial();
      // Some columns at a time, so that the registers of the others hold their accumulators alone.
      for (int first = 0; first < v.bn; first += kColumnsAtOnce) {
        const Index columns = n.slice(first, kColumnsAtOnce);
        const auto hidden = [&](const In<T, 2>& x) {
          return cast<f32>(fill_absent(x(m, columns), 0));
        };
        const Tile d = slice(da, 1, first, kColumnsAtOnce), g = hidden(G), u = U ? hidden(*U) : g,
                   a = activation.value(g, u);
        const auto [by_gate, by_up] = activation.gradient(g, u);
        dG(to, columns) = scaled(d * by_gate), A(to, columns) = scaled(a);
        if (dU) (*dU)(to, columns) = scaled(d * by_up);
        if (parts) part = part + sum(d * a, 1);
      }
      if (parts) parts->partial(), (*parts)(m, n.first() / v.bn) = part;
    }
  }
};

/// Gradients of the rows that an expert took, packed: dH W of each expert, of aligned rows.
template <class T>
struct RowGradient {
  ExpertTileConfig config{};

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

/// dW[e] = L^T S over the aligned rows of expert e, or added to what is there. An expert without
/// rows gets zeros.
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

/// db[e] = sum of the aligned rows of expert e, each scaled by its choice's weight where there are
/// `weights`; or added to what is there.
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

/// Gradients of the weights of choices [tokens, k]: the sums of their rows of `parts`, and products
/// of a token's row of `of_tokens` with the row of `table` that `index` has for the choice (-1 is
/// none).
template <class T>
struct ChoiceGradient {
  void operator()(std::optional<In<f32, 2>> parts, In<i32, 2> row_of,
                  std::optional<In<T, 2>> of_tokens, std::optional<In<T, 2>> table,
                  In<i32, 2> index, Out<f32, 2> dweights) const {
    const int k = row_of.static_dim(1);
    for (auto t : grid(rows(row_of), 1)) {
      grid_dependency_wait();
      for (auto j : steps(k, 1)) {
        Tile total = full<f32>(0.0f);
        if (parts) {
          const Tile row = row_of(t, j);
          for (auto p : steps(parts->cols(), 32)) total = total + sum((*parts)(row, p));
        }
        if (table) {
          const Tile row = index(t, j);
          for (auto c : steps(table->cols(), 512))
            total = total + sum(cast<f32>((*of_tokens)(t, c)) * cast<f32>((*table)(row, c)));
        }
        dweights(t, j) = total;
      }
    }
  }
};

/// Gradients of the logits, by the router's own function.
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
      // Choices of shared experts stand behind the router's.
      dlogits(t, whole(experts)) = router.gradient(z, t, first(ids, t), first(dweights, t));
    }
  }

 private:
  template <class V>
  Tile first(const V& choices, const Index& t) const {
    return router.k == 1 ? choices(t, 0)(all, none) : choices(t, slice(0, router.k));
  }
};

}  // namespace tegula::experts
