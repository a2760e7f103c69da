// Attention backward: one tile of keys against all queries that see it. Rows are keys, so P and dS
// are operands of the products for dV and dK as they are; the gradient of Q is added to memory.
#include "kernels/attention/backward_kernel.h"

#include <numbers>

#include "kernels/attention/gradient_rows.h"

namespace tegula::kernels {
namespace {

constexpr float kBackwardToBase2 = std::numbers::log2e_v<float>;

/// Records the work on each key tile when the kernel is traced.
template <class T>
class BackwardProgram {
 public:
  BackwardProgram(const AttentionSpec& spec, const QueryTraversal& traversal,
                  const BackwardTensors<T>& x, const BlockListParams& lists,
                  const Scalar<f32>& scale, bool is_grouped, const BackwardTiles& tiles)
      : spec_(spec),
        traversal_(traversal),
        x_(x),
        lists_(lists),
        scale_(scale),
        is_grouped_(is_grouped),
        tiles_(tiles),
        d_(slice(0, backward_columns(x.Q.static_dim(3)))),
        dv_(slice(0, backward_columns(x.V.static_dim(3)))),
        group_(is_grouped ? x.Q.dim(1) / x.K.dim(1) : Tile(1)) {
    x.K.static_dim(3), x.dO.static_dim(3);  // static: no guards where nothing is absent
    for (const View* v : std::initializer_list<const View*>{&x.Q, &x.K, &x.V, &x.dO})
      v->do_not_specialize(2);
  }

  /// Processes each tile of keys once.
  void all_tiles() const {
    for (auto [b, h, n] : grid({x_.K.dim(0), x_.K.dim(1), x_.K.dim(2)}, 1, 1, tiles_.block_kv)) {
      Gradients sums{zeros<f32>(tiles_.block_kv, d_.block()),
                     zeros<f32>(tiles_.block_kv, dv_.block())};
      inside(b, h, {&x_.V}), inside(b, h, gradients_of_keys());
      const KeyTile keys{b, h, n, fill_absent(x_.K(b, h, n, d_), 0),
                         fill_absent(x_.V(b, h, n, dv_), 0)};
      grid_dependency_wait();
      if (!is_grouped_)
        visit_head(keys, h, sums);
      else if (lists_.blocks)
        for (auto i : steps(group_, 1)) visit_head(keys, head(h, i.first()), sums);
      else
        visit_group(keys, sums);
      if (x_.dK) (*x_.dK)(b, h, n, d_) = sums.k * scale_;
      if (x_.dV) (*x_.dV)(b, h, n, dv_) = sums.v;
    }
  }

 private:
  struct Gradients {
    Tile k, v;
  };
  struct KeyTile {
    Index b, h, n;
    Tile k, v;
  };

  using Views = std::vector<const View*>;
  Views gradients_of_keys() const {
    Views all;
    if (x_.dK) all.push_back(&*x_.dK);
    if (x_.dV) all.push_back(&*x_.dV);
    return all;
  }
  /// States that the tensors have this batch entry and head.
  static void inside(const Index& b, const Index& h, const Views& views) {
    for (const View* v : views) assume(b.first() < v->dim(0)), assume(h.first() < v->dim(1));
  }
  /// States that the tensors have all rows of the block, too.
  void padded(const Index& b, const Index& h, const Index& m, const Views& views) const {
    inside(b, h, views);
    assume(m.first() >= 0);
    for (const View* v : views) assume(m.first() + tiles_.block_q <= v->dim(2));
  }
  Index head(const Index& kv_head, const Tile& i) const {
    return slice(kv_head.first() * group_ + i, 1);
  }
  /// Returns the distance of a query's position from its row.
  Tile shift() const {
    return spec_.align_bottom_right ? x_.K.dim(2) - x_.Q.dim(2) : tegula::full<i32>(0);
  }
  KvBlockIterator blocks_of(const KeyTile& keys, const Index& h) const {
    if (lists_.blocks)
      return KvBlockIterator::list({*lists_.blocks, *lists_.counts, lists_.full, true}, keys.b, h,
                                   keys.n.first() / tiles_.block_kv, tiles_.block_q);
    const Tile last = min(keys.n.first() + tiles_.block_kv, x_.K.dim(2)) - 1;
    return traversal_.blocks(keys.n.first(), last, x_.Q.dim(2), shift(), tiles_.block_q);
  }

  void visit_head(const KeyTile& keys, const Index& h, Gradients& sums) const {
    const KvBlockIterator blocks = blocks_of(keys, h);
    for (auto step : blocks.steps()) visit(keys, h, blocks, step, sums);
  }

  /// Visits the blocks of all heads of the group in one loop, in which the keys stay.
  void visit_group(const KeyTile& keys, Gradients& sums) const {
    const KvBlockIterator blocks = blocks_of(keys, keys.h);
    const Tile count = blocks.count();
    for (auto i : steps(count * group_, 1)) {
      const Tile number = cast<i32>(i.first());
      visit(keys, head(keys.h, number / count), blocks, blocks.step(number % count), sums);
    }
  }

  /// Adds the gradients of one block of queries.
  void visit(const KeyTile& keys, const Index& h, const KvBlockIterator& blocks, const Index& step,
             Gradients& sums) const {
    const Index &b = keys.b, m = blocks.block(step);
    inside(b, h, {&x_.Q, &x_.dO});
    if (is_softmax()) padded(b, h, m, {&x_.L, &x_.D});
    if (x_.dQ) inside(b, h, {&*x_.dQ}), assume(m.first() / tiles_.block_q < x_.dQ->dim(2));
    const Tile q = fill_absent(x_.Q(b, h, m, d_), 0), grad = fill_absent(x_.dO(b, h, m, dv_), 0);
    const Tile needs_mask = blocks.needs_mask(step, spec_.mask != nullptr) ||
                            keys.n.first() + tiles_.block_kv > x_.K.dim(2);
    const Tile products = dot(keys.k, q.T()), scaled = products * scale_;
    const Tile score = spec_.score ? modified(scaled, keys, h, m) : scaled;
    Tile p = weights(products, score, b, h, m);
    if_(needs_mask, [&] { p = where(visible(keys, h, m), p, 0.0f); });
    if (x_.dV) sums.v = dot(cast<T>(p), grad, sums.v);
    if (!x_.dK && !x_.dQ) return;
    Tile ds = dot(keys.v, grad.T());
    if (is_softmax()) ds = p * (ds - expand(x_.D(b, h, m), 0));
    if (spec_.score) ds = reassociable([&] { return derivative(score, scaled, ds); });
    // A value, a gradient or a slope that is not finite must not reach the pairs that are masked.
    if_(needs_mask, [&] {
      ds = is_softmax() ? where(p == 0.0f, 0.0f, ds) : where(visible(keys, h, m), ds, 0.0f);
    });
    const Tile rounded = cast<T>(ds);
    if (x_.dK) sums.k = dot(rounded, q, sums.k);
    if (!x_.dQ) return;
    atomic_add((*x_.dQ)(b, h, m.first() / tiles_.block_q, all),
               in_fragment_order(dot(rounded.T(), keys.k)));
  }

  bool is_softmax() const { return spec_.weighting == AttentionNormalization::softmax; }

  /// Returns the results of the score function, [keys, queries].
  Tile modified(const Tile& scaled, const KeyTile& keys, const Index& h, const Index& m) const {
    return reassociable([&] {
      const Tile score = spec_.score(scaled, keys.b, h, positions(m), expand(keys.n, 1));
      return broadcast(cast<f32>(score), {scaled.dim(0), scaled.dim(1)});
    });
  }

  /// Returns the weights of the forward pass. Without a score function, `products` are scaled and
  /// converted to base 2 at once.
  Tile weights(const Tile& products, const Tile& score, const Index& b, const Index& h,
               const Index& m) const {
    if (!is_softmax()) return score;
    const Tile base = -expand(x_.L(b, h, m), 0);
    return spec_.score ? exp2(fma(score, kBackwardToBase2, base))
                       : exp2(fma(products, scale_ * kBackwardToBase2, base));
  }

  /// Returns the positions of queries that mask and score receive, [1, queries].
  Tile positions(const Index& m) const {
    return spec_.align_bottom_right ? expand(m, 0) + shift() : expand(m, 0);
  }

  Tile visible(const KeyTile& keys, const Index& h, const Index& m) const {
    const Tile kv = expand(keys.n, 1), inside = kv < x_.K.dim(2);
    return spec_.mask ? inside && spec_.mask(keys.b, h, positions(m), kv) : inside;
  }

  const AttentionSpec& spec_;
  const QueryTraversal& traversal_;
  const BackwardTensors<T>& x_;
  const BlockListParams& lists_;
  Tile scale_;
  bool is_grouped_;
  BackwardTiles tiles_;
  Index d_, dv_;
  Tile group_;
};

}  // namespace

template <class T>
BackwardKernel<T> backward_kernel(std::shared_ptr<const AttentionSpec> spec,
                                  std::shared_ptr<const QueryTraversal> traversal,
                                  const BackwardTiles& tiles) {
  return kernel("attention_backward",
                [spec, traversal, tiles](const BackwardTensors<T>& tensors, Scalar<f32> scale,
                                         bool is_grouped, const BlockListParams& lists) {
                  BackwardProgram<T>(*spec, *traversal, tensors, lists, scale, is_grouped, tiles)
                      .all_tiles();
                })
      .prefer({.stages = tiles.stages});
}

template BackwardKernel<bf16> backward_kernel<bf16>(std::shared_ptr<const AttentionSpec>,
                                                    std::shared_ptr<const QueryTraversal>,
                                                    const BackwardTiles&);
template BackwardKernel<f16> backward_kernel<f16>(std::shared_ptr<const AttentionSpec>,
                                                  std::shared_ptr<const QueryTraversal>,
                                                  const BackwardTiles&);

}  // namespace tegula::kernels
