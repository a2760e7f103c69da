// Attention backward: one tile of keys against all queries that see it. Rows are keys, so P and dS
// are operands of the products for dV and dK as they are; the gradient of Q is added to memory, or
// computed by a second launch whose rows are queries.
#include "kernels/attention/backward_kernel.h"

#include <limits>
#include <numbers>
#include <utility>

#include "kernels/attention/group_lists.h"
#include "kernels/attention/query_rows.h"
#include "tegula/attention_tiles.h"

namespace tegula::kernels {
namespace {

constexpr float kBackwardToBase2 = std::numbers::log2e_v<float>;
constexpr float kMasked = -std::numeric_limits<float>::infinity();  ///< product of a masked pair

/// Records the work on each key tile when the kernel is traced.
template <class T>
class BackwardProgram {
 public:
  BackwardProgram(const BackwardSetup& setup, const BackwardParams<T>& x,
                  const CapturedSums<T>& captured, bool slope_varies)
      : spec_(setup.facts->spec),
        block_mask_(setup.block_mask.get()),
        tiles_(setup.tiles),
        x_(x),
        captured_(captured),
        slope_varies_(slope_varies),
        scale_(x.scale),
        parts_(x.dQ ? backward_parts(x.Q.static_dim(3))
                    : std::vector<int>{padded_head_dim(x.Q.static_dim(3))}),
        dv_(slice(0, padded_head_dim(x.V.static_dim(3)))),
        group_(!x.is_grouped       ? Tile(1)
               : tiles_.of_queries ? x.K.dim(1) / x.Q.dim(1)
                                   : x.Q.dim(1) / x.K.dim(1)) {
    x.K.static_dim(3), x.dO.static_dim(3);  // static: no guards where nothing is absent
    for (const View* v : std::initializer_list<const View*>{&x.Q, &x.K, &x.V, &x.dO})
      v->do_not_specialize(2);
    if (x.dQ) x.dQ->static_dim(3);
    if (x.starts_q) x.starts_q->do_not_specialize(0), x.starts_kv->do_not_specialize(0);
  }

  /// Processes each tile of keys once.
  void all_tiles() const {
    if (x_.starts_q) return tiles_of_sequences();
    const int rows = tiles_.block_kv;
    const Tile batch = x_.K.dim(0), heads = x_.K.dim(1), end = x_.K.dim(2);
    for (auto [b, x, y] : tiles_.heads_last ? grid({batch, end, heads}, 1, rows, 1)
                                            : grid({batch, heads, end}, 1, 1, rows)) {
      const Index &h = tiles_.heads_last ? y : x, &i = tiles_.heads_last ? x : y;
      // Under a causal mask the last queries have the most keys, and the first keys most queries.
      const Index n = tiles_.of_queries ? slice((cdiv(end, rows) - 1) * rows - i.first(), rows) : i;
      one_tile({b, end}, b, h, n, n);
    }
  }

  void tiles_of_sequences() const {
    const VarlenTileScheduler keys(*x_.starts_kv, tiles_.block_kv),
        queries(*x_.starts_q, tiles_.of_queries ? kGradientKeys : kGradientRows);
    if (x_.dK) x_.dK->partial();
    if (x_.dV) x_.dV->partial();
    for (auto [h, i] : grid({x_.K.dim(1), x_.K.dim(2) / tiles_.block_kv}, 1, 1)) {
      grid_dependency_wait();
      const auto [b, n] = keys.at(i.first());
      SequenceRange sequence = SequenceRange::packed(*x_.starts_q, *x_.starts_kv, b.first());
      const Tile length = *sequence.q_end - *sequence.q_first, first = queries.first_row(b.first());
      sequence.q_first = first, sequence.q_end = first + length;
      one_tile(sequence, b, h, n, slice(i.first() * tiles_.block_kv, tiles_.block_kv));
    }
  }

  /// Processes keys `n` of sequence `b`, which are rows `whole` of K.
  void one_tile(const SequenceRange& sequence, const Index& b, const Index& h, const Index& n,
                const Index& whole) const {
    Gradients sums{{}, zeros<f32>(tiles_.block_kv, dv_.block()), captured_.zeros(tiles_.block_kv)};
    for (const int part : parts_) sums.k.push_back(zeros<f32>(tiles_.block_kv, part));
    const Index &entry = sequence.entry, at = sequence.own_keys(n);
    inside(entry, h, {&x_.V}), inside(entry, h, {pointer(x_.dK), pointer(x_.dV)});
    const Parts k = parts_of(x_.K, entry, h, whole);
    const Tile v = fill_absent(x_.V(entry, h, sequence.keys(n), dv_), 0);
    KeyTile keys{sequence, b, h, n, k, v, {}};
    if (!x_.starts_q) grid_dependency_wait();
    if (tiles_.of_queries) keys.terms = terms_of(entry, h, whole);
    if (!x_.is_grouped || x_.lists.blocks || tiles_.of_queries)
      visit_blocks(keys, sums);
    else
      visit_group(keys, sums);
    for_each_part([&](std::size_t i, const Index& columns) {
      if (x_.dK) (*x_.dK)(entry, h, at, columns) = sums.k[i] * scale_;
    });
    if (x_.dV) (*x_.dV)(entry, h, at, dv_) = sums.v;
    captured_.add(sums.captured, {b, h, slice(0, 1), n});
  }

 private:
  /// Tiles of the columns of Q or K that each part has.
  using Parts = std::vector<Tile>;
  struct Gradients {
    Parts k;
    Tile v;
    typename CapturedSums<T>::Carried captured;
  };
  /// L and D of queries, [rows or 1, columns or 1]; undefined without a softmax.
  struct QueryTerms {
    Tile l, d;
  };
  struct KeyTile {
    SequenceRange sequence;
    Index b, h, n;
    Parts k;
    Tile v;
    QueryTerms terms;  ///< if rows are queries
  };

  using Views = std::initializer_list<const View*>;  ///< null: absent
  static const View* pointer(const std::optional<Out<T, 4>>& v) { return v ? &*v : nullptr; }
  /// States that the tensors have this batch entry and head.
  static void inside(const Index& b, const Index& h, Views views) {
    assume(h.first() >= 0);
    for (const View* v : views)
      if (v) assume(b.first() < v->dim(0)), assume(h.first() < v->dim(1));
  }
  Index head(const Index& kv, const Tile& i) const { return slice(kv.first() * group_ + i, 1); }
  Tile columns_of(const SequenceRange& s) const { return s.seqlen_q(x_.Q.dim(2)); }
  /// Returns the distance of a query's position from its row.
  Tile shift(const SequenceRange& s) const {
    if (!spec_.align_bottom_right) return tegula::full<i32>(0);
    return tiles_.of_queries ? columns_of(s) - s.seqlen_kv : s.seqlen_kv - columns_of(s);
  }
  /// Returns the blocks of columns that a tile visits.
  KvBlockIterator blocks_of(const KeyTile& keys) const {
    const SequenceRange& s = keys.sequence;
    const Tile first = keys.n.first(), last = min(first + tiles_.block_kv, s.seqlen_kv) - 1;
    std::optional<KvIndexWindow> columns;
    if (x_.lists.blocks && x_.starts_q && !tiles_.lists_by_sequence)
      columns = group_window(keys.b.first(), *x_.starts_q, tiles_.block_q,
                             tiles_.of_queries ? tegula::full<i32>(1) : group_);
    const KvBlockIterator blocks =
        x_.lists.blocks ? KvBlockIterator::list(
                              {*x_.lists.blocks, *x_.lists.counts, x_.lists.full, true}, keys.b,
                              keys.h, first / tiles_.block_kv, tiles_.block_q, columns)
                        : blocks_of_mask(s, first, last);
    if (!x_.starts_q) return blocks;
    const Tile exists = first < s.seqlen_kv;
    return blocks.only_if(tiles_.lists_by_sequence ? exists && columns_of(s) > 0 : exists);
  }
  /// Returns the blocks in which rows [first, last] may have pairs: the mask's analysis with the
  /// roles of query and key exchanged. They begin at multiples of block_q.
  KvBlockIterator blocks_of_mask(const SequenceRange& s, const Tile& first,
                                 const Tile& last) const {
    const Tile by = shift(s), length = columns_of(s), none = tegula::full<i32>(0),
               rows_by = tiles_.of_queries ? by : none, cols_by = tiles_.of_queries ? none : by;
    KvRanges columns;
    if (block_mask_)
      columns = block_mask_->record(first + rows_by, last + rows_by, length + cols_by);
    const auto moved = [&](const KvRange& r) { return KvRange{r.lo - cols_by, r.hi - cols_by}; };
    const auto aligned = [&](const KvRange& r) {
      return KvRange{max(r.lo - cols_by, 0) / tiles_.block_q * tiles_.block_q, r.hi - cols_by};
    };
    replace_ranges(columns, aligned, moved);
    return KvBlockIterator::range(columns, length, tiles_.block_q);
  }

  /// Visits the blocks of one head, or those that a list has for the heads of the group.
  void visit_blocks(const KeyTile& keys, Gradients& sums) const {
    const KvBlockIterator blocks = blocks_of(keys);
    for (auto step : blocks.steps()) {
      const Index m = blocks.block(step);
      if (!x_.is_grouped || tiles_.of_queries) {
        visit(keys, x_.is_grouped ? slice(keys.h.first() / group_, 1) : keys.h, m,
              blocks.needs_mask(step, spec_.mask != nullptr), sums);
        continue;
      }
      const Tile number = m.first() / tiles_.block_q, bits = x_.log2_blocks,
                 of_group = number >> bits, block = number - (of_group << bits);
      visit(keys, head(keys.h, of_group), slice(block * tiles_.block_q, tiles_.block_q),
            blocks.needs_mask(step, spec_.mask != nullptr), sums);
    }
  }

  /// Visits the blocks of all heads of the group in one loop, in which the keys stay.
  void visit_group(const KeyTile& keys, Gradients& sums) const {
    const KvBlockIterator blocks = blocks_of(keys);
    const Tile count = blocks.count();
    for (auto i : steps(count * group_, 1)) {
      const Tile number = cast<i32>(i.first());
      const Index step = blocks.step(number % count);
      visit(keys, head(keys.h, number / count), blocks.block(step),
            blocks.needs_mask(step, spec_.mask != nullptr), sums);
    }
  }

  /// Adds the gradients of one block of queries.
  void visit(const KeyTile& keys, const Index& h, const Index& m, const Tile& is_partial,
             Gradients& sums) const {
    Tile first = m.first();
    if (tiles_.lists_by_sequence)  // a block that the sequence lacks is masked
      first = min(first, (columns_of(keys.sequence) - 1) / tiles_.block_q * tiles_.block_q);
    const Index &b = keys.sequence.entry,
                rows = keys.sequence.queries(slice(first, tiles_.block_q));
    inside(b, h, {&x_.Q, &x_.dO});
    if (is_softmax() && !tiles_.of_queries) {
      inside(b, h, {&x_.L, &x_.D}), assume(rows.first() >= 0);
      for (const View* v : {&x_.L, &x_.D}) assume(rows.first() + tiles_.block_q <= v->dim(2));
    }
    const Tile block = rows.first() / tiles_.block_q;
    if (x_.dQ) inside(b, h, {&*x_.dQ}), assume(block < x_.dQ->dim(2));
    const Parts q = parts_of(x_.Q, b, h, rows);
    const Tile grad = fill_absent(x_.dO(b, h, rows, dv_), 0);
    const QueryTerms terms = tiles_.of_queries ? keys.terms : terms_of(b, h, rows);
    Tile needs_mask = is_partial;
    if (!tiles_.of_queries)  // rows of queries beyond the last one are not stored
      needs_mask = is_partial || keys.n.first() + tiles_.block_kv > keys.sequence.seqlen_kv;
    Tile products = dot(keys.k[0], q[0].T());
    for (std::size_t i = 1; i < q.size(); ++i) products = dot(keys.k[i], q[i].T(), products);
    // A slope that differs between pairs is multiplied by P before dP is waited for, so that only
    // the product stays in registers. The mask then comes first, while nothing else is live, as for
    // a bias that has a gradient: its adjoints are products of masked scores, which are finite.
    const bool is_early = is_softmax() && slope_varies_ && !captured_.any(),
               is_bias = captured_.any() && tiles_.tma_aux_loads && !slope_varies_,
               is_first = is_early || (is_bias && spec_.mask && is_softmax() && !x_.is_grouped);
    const float masked = is_early ? kMasked : -1e30f;
    if (is_first) if_(needs_mask, [&] { products = where(visible(keys, h, m), products, masked); });
    const Tile scaled = products * scale_;
    const Tile score = spec_.score ? modified(scaled, keys, h, m) : scaled;
    Tile p = weights(products, score, terms);
    if (is_first)
      p = where(products == masked, 0.0f, p);
    else
      if_(needs_mask, [&] { p = where(visible(keys, h, m), p, 0.0f); });
    const auto slope = [&] { return derivative(score, scaled, p); };
    const Tile sloped = is_early ? where(p == 0.0f, 0.0f, reassociable(slope)) : p;
    if (x_.dV) sums.v = dot(cast<T>(p), grad, sums.v);
    if (!x_.dK && !x_.dQ && !captured_.any()) return;
    Tile ds = dot(keys.v, grad.T());
    if (is_softmax()) ds = sloped * (ds - terms.d);
    // A value, a gradient or a slope that is not finite must not reach the pairs that are masked.
    if (captured_.any()) {
      const Tile kept = is_softmax() ? p != 0.0f : visible(keys, h, m);
      const CapturedPairs at{keys.b, h, m.shifted(shift(keys.sequence)), keys.n};
      ds = reassociable(
          [&] { return captured_.add(where(kept, score, 0.0f), ds, scaled, at, sums.captured); });
    } else {
      if (spec_.score && !is_early)
        ds = reassociable([&] { return derivative(score, scaled, ds); });
      if_(needs_mask, [&] {
        ds = is_softmax() ? where(sloped == 0.0f, 0.0f, ds) : where(visible(keys, h, m), ds, 0.0f);
      });
    }
    const Tile rounded = cast<T>(ds);
    // wgmma computes at least 64 rows.
    const bool is_transposed = tiles_.block_q < kGradientRows;
    for_each_part([&](std::size_t i, const Index& columns) {
      if (x_.dK) sums.k[i] = dot(rounded, q[i], sums.k[i]);
      if (!x_.dQ) return;
      const int size = tiles_.block_q;
      atomic_add((*x_.dQ)(b, h, block, slice(columns.first() * size, columns.block() * size)),
                 in_fragment_order(is_transposed ? dot(keys.k[i].T(), rounded)
                                                 : dot(rounded.T(), keys.k[i])));
    });
  }

  /// Calls body(i, columns) for each part of the columns of Q and K.
  template <class Body>
  void for_each_part(const Body& body) const {
    int first = 0;
    for (std::size_t i = 0; i < parts_.size(); first += parts_[i++])
      body(i, slice(first, parts_[i]));
  }
  Parts parts_of(const In<T, 4>& x, const Index& b, const Index& h, const Index& rows) const {
    Parts tiles;
    for_each_part([&](std::size_t, const Index& columns) {
      tiles.push_back(fill_absent(x(b, h, rows, columns), 0));
    });
    return tiles;
  }

  bool is_softmax() const { return spec_.weighting == AttentionNormalization::softmax; }

  /// Returns the results of the score function, [keys, queries].
  Tile modified(const Tile& scaled, const KeyTile& keys, const Index& h, const Index& m) const {
    return reassociable([&] {
      const auto [query_head, q, kv] = positions(keys, h, m);
      const Tile score = spec_.score(scaled, keys.b, query_head, q, kv);
      return broadcast(cast<f32>(score), {scaled.dim(0), scaled.dim(1)});
    });
  }

  /// Returns the weights of the forward pass. Without a score function, `products` are scaled and
  /// converted to base 2 at once.
  Tile weights(const Tile& products, const Tile& score, const QueryTerms& terms) const {
    if (!is_softmax()) return score;
    return spec_.score ? exp2(fma(score, kBackwardToBase2, -terms.l))
                       : exp2(fma(products, scale_ * kBackwardToBase2, -terms.l));
  }

  QueryTerms terms_of(const Index& b, const Index& h, const Index& rows) const {
    if (!is_softmax()) return {};
    const int axis = tiles_.of_queries ? 1 : 0;
    return {expand(fill_absent(x_.L(b, h, rows), -kMasked), axis),
            expand(fill_absent(x_.D(b, h, rows), 0), axis)};
  }

  /// Arguments of mask and score: the head and positions of queries, and positions of keys, [rows
  /// or 1, columns or 1].
  struct Positions {
    const Index& h;
    Tile q, kv;
  };
  Positions positions(const KeyTile& keys, const Index& h, const Index& m) const {
    Tile q = expand(m, 0), kv = expand(keys.n, 1);
    if (tiles_.of_queries) std::swap(q, kv);
    return {tiles_.of_queries ? keys.h : h, spec_.align_bottom_right ? q + shift(keys.sequence) : q,
            kv};
  }

  Tile visible(const KeyTile& keys, const Index& h, const Index& m) const {
    const auto [query_head, q, kv] = positions(keys, h, m);
    const SequenceRange& s = keys.sequence;
    Tile inside = kv < (tiles_.of_queries ? columns_of(s) : s.seqlen_kv);
    if (tiles_.lists_by_sequence) inside = inside && expand(m, 0) < columns_of(s);
    return spec_.mask ? inside && spec_.mask(keys.b, query_head, q, kv) : inside;
  }

  const AttentionSpec& spec_;
  const BlockMask* block_mask_;
  const BackwardTiles& tiles_;
  const BackwardParams<T>& x_;
  const CapturedSums<T>& captured_;
  bool slope_varies_;  ///< between pairs
  Tile scale_;
  std::vector<int> parts_;
  Index dv_;
  Tile group_;
};

}  // namespace

template <class T>
BackwardKernel<T> backward_kernel(const BackwardSetup& setup) {
  const BackwardTiles& tiles = setup.tiles;
  // Tiles differ in work under a mask, so equal numbers of them are not equal work of the CTAs.
  PlanPatch plan{
      .stages = tiles.stages, .persistent = false, .epilogue_tile_n = tiles.store_columns};
  if (tiles.tma_aux_loads) plan.stages.reset(), plan.tma_aux_loads = true;
  return kernel("attention_backward",
                [setup, slope_varies = setup.captures->slope_varies()](const BackwardParams<T>& x) {
                  const CapturedSums<T> sums(*setup.captures, setup.selected, x.captured,
                                             !x.is_grouped);
                  BackwardProgram<T>(setup, x, sums, slope_varies).all_tiles();
                })
      .prefer(plan);
}

template BackwardKernel<bf16> backward_kernel<bf16>(const BackwardSetup&);
template BackwardKernel<f16> backward_kernel<f16>(const BackwardSetup&);

}  // namespace tegula::kernels
