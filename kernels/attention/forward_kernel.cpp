// Attention forward: one tile of queries against all visible keys, online softmax in base 2.
#include "kernels/attention/forward_kernel.h"

#include <numbers>

#include "kernels/attention/arguments.h"
#include "kernels/attention/query_rows.h"
#include "kernels/attention/softmax_state.h"
#include "kernels/attention/split_kv.h"
#include "kernels/attention/work_list.h"
#include "tegula/attention_tiles.h"
#include "tegula/int_math.h"

namespace tegula::kernels {
namespace {

/// Rows of a product of one warpgroup.
constexpr int kRowsOfM = 64;
constexpr float kScoresToBase2 = std::numbers::log2e_v<float>;

/// Records the work on each query tile when the kernel is traced.
template <class T>
class ForwardTileProgram {
 public:
  ForwardTileProgram(const AttentionHeuristics& facts, const ForwardTensors<T>& x,
                     const SoftmaxTensors& softmax, const ForwardRows& rows, const PagedRows& paged,
                     const BlockListParams& lists, const std::optional<In<i32, 3>>& order,
                     const std::optional<SplitKvPartials>& shared, const Scalar<f32>& scale,
                     bool no_keys, SoftmaxPass pass, const ForwardTiles& tiles)
      : spec_(facts.spec),
        traversal_(facts.traversal),
        rescaling_(facts.numerics.rescaling),
        x_(x),
        softmax_(softmax),
        rows_(rows),
        paged_(paged),
        lists_(lists),
        order_(order),
        shared_(shared),
        pass_(pass),
        no_keys_(no_keys),
        goes_backwards_(facts.iterates_in_reverse()),
        scale_(scale),
        // Exponents are factor * scores; the results of a score function are scaled when they are
        // computed.
        factor_(spec_.score ? full<f32>(1) : scaled(scale_)),
        // Head dims are padded by absent elements: to a multiple of 16, or of 64 in M.
        d_(slice(0, padded_head_dim(x.Q.static_dim(3)))),
        dv_(slice(0, tiles.keys_in_m ? round_up(x.V.static_dim(3), kRowsOfM)
                                     : padded_head_dim(x.V.static_dim(3)))),
        tiles_{tiles.block_q, tiles.block_kv},
        keys_in_m_(tiles.keys_in_m),
        // If two CTAs share an SM all the time, one copies while the other one computes. That is
        // faster than TMA for several thousand keys per request.
        copies_by_threads_(paged.work && tiles.paired_stages > 0),
        programs_(tiles.cluster_ctas),
        few_queries_(tiles.few_queries),
        group_(x.Q.dim(1) / x.K.dim(1)) {
    x.K.static_dim(3), x.O.static_dim(3);  // static: no guards where nothing is absent
    if (rows.cu_q) any_number();
    any_length();
  }

  /// Processes each tile once.
  void all_tiles(const FallbackFlags& fallback_flags) const {
    if (order_) return tiles_in_order();
    if (rows_.cu_q && !rows_.pack_gqa) return tiles_of_sequences(fallback_flags);
    const bool is_masked = spec_.mask || spec_.kv_range || spec_.blocks;
    const int rows = tiles_.block_q;
    if (paged_.work) return tiles_of_work();
    if (shared_) return split_kv_tiles();
    if (programs_ > 1) return tiles_of_clusters();
    for (auto [b, h, m] : grid(space(), 1, 1, rows, balanced_pairs.when(is_masked)))
      one_tile(b, h, m, fallback_flags);
  }

  /// Each cluster processes one tile; its CTAs split the keys. No speculative softmax.
  void tiles_of_clusters() const {
    for (auto [b, h, m] : grid(space(), 1, 1, tiles_.block_q, cluster(programs_))) {
      const Index mine = cluster_slice(m);
      store(of_cluster(b, h, m, mine, cluster_rank(), Tile(programs_)), h, mine);
    }
  }

  /// Several clusters share each tile; the last one to finish stores it.
  void split_kv_tiles() const {
    const Tile entries = x_.O.dim(0), heads = x_.O.dim(1);
    const SplitKvPartials& shared = *shared_;
    for (auto [b, h, c] : grid({entries, heads, shared.clusters}, 1, 1, 1, cluster(programs_))) {
      const Index m = slice(0, tiles_.block_q), mine = cluster_slice(m);
      const Tile tile = cast<i32>(b.first() * heads + h.first()), cluster = c.first(),
                 rank = cluster_rank();
      const TileResult part =
          of_cluster(b, h, m, mine, cluster * programs_ + rank, shared.clusters * programs_);
      const auto& softmax = std::get<OnlineSoftmax>(part.state);
      if_(shared.publish(softmax, tile, cluster, mine, dv_, tile * programs_ + rank,
                         shared.clusters),
          [&] {
            const Tile last = min(mine.first() + mine.block(), x_.Q.dim(2));
            store_combined(part, h, mine.first(), last, {}, {tile, Tile(0), shared.clusters},
                           SplitKvPartials::kRows);
          });
    }
  }

  /// Each program processes a part of the keys of a tile of a request; of several parts, the last
  /// one to finish stores the result.
  void tiles_of_work() const {
    const Tile heads = x_.O.dim(1), tiles = cdiv(packed_rows(), tiles_.block_q);
    for (auto [i, h, t] : grid({paged_.work->dim(0), heads, tiles}, 1, 1, 1)) {
      const WorkItem item = WorkItem::of(*paged_.work, i);
      assume(item.request >= 0), assume(item.request < requests());
      const Index b(item.request, 1), m = slice(t.first() * tiles_.block_q, tiles_.block_q);
      const TileResult part = attend_tile(b, h, m, {}, KvPart{item.part, item.parts});
      if_(item.parts == 1 && item.part == 0, [&] { store(part, h, m); });
      if_(item.parts > 1, [&] {
        const Tile tile = cast<i32>(h.first() * tiles + t.first()),
                   arrival = item.slot * cast<i32>(heads * tiles) + tile,
                   rows = min(part.sequence.by_head->count() - m.first(), tiles_.block_q);
        if_(shared_->publish(std::get<OnlineSoftmax>(part.state), tile, item.slot + item.part,
                             slice(0, tiles_.block_q).until(rows), dv_, arrival, item.parts),
            [&] {
              store_combined(part, h, Tile(0), rows, m.first(),
                             {tile, item.slot, item.slot + item.parts},
                             SplitKvPartials::kRowsOfList);
            });
      });
    }
  }

  /// Processes the last tiles first: under causal masks they have most kv blocks.
  void tiles_of_sequences(const FallbackFlags& fallback_flags) const {
    const VarlenTileScheduler tiles(*rows_.cu_q, tiles_.block_q);
    const Tile count = tiles.count(x_.O.dim(2));
    for (auto [h, i] : grid({x_.O.dim(1), count}, 1, 1)) {
      const auto [b, m] = tiles.at(count - 1 - i.first());
      one_tile(b, h, m, fallback_flags);
    }
  }

  void one_tile(const Index& b, const Index& h, const Index& m,
                const FallbackFlags& fallback_flags) const {
    const TileResult done = attend_tile(b, h, m, {});
    store(done, h, m);
    if (pass_ != SoftmaxPass::speculative) return;
    const auto& softmax = std::get<OnlineSoftmax>(done.state);
    const Tile needs_recompute = done.sequence.mask_tail(softmax.needs_recompute(), m);
    fallback_flags.mark(number(b, h, m), fill_absent(needs_recompute, false));
  }

  /// Processes the first tile of the order of every head, then the second ones, and so on. With
  /// block lists no tile is flagged.
  void tiles_in_order() const {
    const Tile count = cdiv(longest(), tiles_.block_q);
    const Tile entries = rows_.cu_q ? rows_.cu_q->dim(0) - 1 : x_.O.dim(0);
    for (auto [r, b, h] : grid({count, entries, x_.O.dim(1)}, 1, 1, 1)) {
      const Tile tile = fill_absent((*order_)(b, h, r), 0);
      assume(tile >= 0), assume(tile < count);
      const Index m = slice(tile * tiles_.block_q, tiles_.block_q);
      store(attend_tile(b, h, m, {}), h, m);
    }
  }

  /// Recomputes the flagged tiles, which are distributed over the programs.
  void recompute_tiles(const FallbackFlags& fallback_flags, const Tile& programs) const {
    for (auto p : grid(GridSpace(programs), 1)) {
      grid_dependency_wait();
      const auto tiles = tiles_of(space(), 1, 1, tiles_.block_q);
      const Tile any = fallback_flags.any(), left = max(tiles.count() - p.first(), 0),
                 mine = where(any, cdiv(left, programs), 0);
      for (auto i : steps(mine, 1)) {
        const auto [b, h, m] = tiles.at(cast<i32>(p.first()) + cast<i32>(i.first()) * programs);
        const Tile is_flagged = fallback_flags.is_flagged(number(b, h, m));
        const TileResult done = attend_tile(b, h, m, is_flagged);
        if_(is_flagged, [&] { store(done, h, m); });
      }
      if_(any, [&] { fallback_flags.leave(programs); });
    }
  }

 private:
  struct TileResult {
    SequenceRange sequence;
    QueryRows rows;
    SoftmaxState state;
  };

  /// A part of the keys of a tile.
  struct KvPart {
    Tile number, parts;
  };

  /// Disables specialization on lengths, whose divisibility is not useful: missing rows of a tile
  /// are absent, and the rows that a thread stores are not adjacent.
  void any_length() const {
    for (const View* v : std::initializer_list<const View*>{&x_.Q, &x_.O}) v->do_not_specialize(2);
    if (!paged_.table)
      for (const View* v : std::initializer_list<const View*>{&x_.K, &x_.V})
        v->do_not_specialize(2);
    const auto by_row = [](const View& v) {
      v.do_not_specialize(2), v.do_not_specialize_stride(0), v.do_not_specialize_stride(1);
    };
    if (x_.Lse) by_row(*x_.Lse);
    if (softmax_.row_max) by_row(*softmax_.row_max);
    if (!shared_) return;
    for (const InOut<f32, 4>* v : {&shared_->acc_partials, &shared_->row_stats})
      v->do_not_specialize(0), v->do_not_specialize(1), v->do_not_specialize(2),
          v->do_not_specialize(3);
  }

  /// Disables specialization on the number of sequences.
  void any_number() const {
    rows_.cu_q->do_not_specialize(0);
    if (rows_.cu_kv) rows_.cu_kv->do_not_specialize(0);
    if (paged_.kv_lengths) paged_.kv_lengths->do_not_specialize(0);
    if (paged_.work) paged_.work->do_not_specialize(0);
    if (rows_.pack_gqa) any_number_of_rows();
    if (lists_.blocks) lists_.blocks->do_not_specialize(0), lists_.counts->do_not_specialize(0);
    if (lists_.full) lists_.full->do_not_specialize(0);
    if (order_) order_->do_not_specialize(0);
  }

  /// With packed heads, the first dimension counts the queries of all requests.
  void any_number_of_rows() const {
    x_.Q.do_not_specialize(0), x_.O.do_not_specialize(0);
    if (x_.Lse) x_.Lse->do_not_specialize(0);
    if (softmax_.row_max) softmax_.row_max->do_not_specialize(0);
  }

  GridSpace space() const {
    if (!rows_.cu_q) return GridSpace(x_.O);
    const Tile rows = rows_.pack_gqa ? packed_rows() : rows_.seqlen_q.value();
    return GridSpace({rows_.cu_q->dim(0) - 1, x_.O.dim(1), rows});
  }

  /// Returns the number of requests or of packed sequences.
  Tile requests() const {
    return paged_.kv_lengths ? paged_.kv_lengths->dim(0) : rows_.cu_q->dim(0) - 1;
  }

  /// Returns true if rows are pairs of a query and a head (SequenceRange::by_head).
  bool packs_queries() const { return rows_.cu_q && rows_.pack_gqa; }

  /// Returns the largest number of rows per request and kv head of packed queries.
  Tile packed_rows() const { return x_.O.dim(2) * rows_.seqlen_q; }

  /// Returns the number of rows of the longest sequence.
  Tile longest() const { return rows_.cu_q ? rows_.seqlen_q : x_.O.dim(2); }

  Tile number(const Index& b, const Index& h, const Index& m) const {
    const Tile tiles = cdiv(longest(), tiles_.block_q);
    return cast<i32>((b.first() * x_.O.dim(1) + h.first()) * tiles + m.first() / tiles_.block_q);
  }

  /// Returns the rows of request b in a cache.
  auto cached(const In<T, 4>& cache, const Index& b, const Tile& length) const {
    const Hints hints{.cache = copies_by_threads_ ? Cache::cg : Cache::normal};
    return paged(cache.with(hints), paged_.table, b.first(), length, {.page = 0, .row = 2});
  }

  Tile keys(const In<T, 4>& of, const TileResult& s, const Index& b, const Index& h, const Index& n,
            const Index& columns) const {
    const Index kv = s.sequence.keys(n);
    const bool has_kv_head = s.sequence.by_head.has_value();
    if (has_kv_head) assume(h < of.dim(1));
    const Subscript head = has_kv_head ? Subscript(h) : Subscript(h / group_);
    if (paged_.kv_lengths) return cached(of, b, s.sequence.seqlen_kv)(head, kv, columns);
    return of(s.sequence.entry, head, kv, columns);
  }

  SequenceRange sequence_of(const Index& b) const {
    if (!rows_.cu_q) return SequenceRange{b, x_.K.dim(2)};
    const SequenceRange sequence =
        paged_.kv_lengths ? request_of(b) : SequenceRange::packed(*rows_.cu_q, *rows_.cu_kv, b);
    if (!rows_.pack_gqa) return sequence;
    const bool is_one_query = !keys_in_m_ && !can_gather_queries(d_.block(), dv_.block());
    return sequence.with_heads_as_rows(x_.Q.dim(2), rows_.seqlen_q, is_one_query);
  }

  SequenceRange request_of(const Index& b) const {
    const Tile length = cached(x_.K, b, fill_absent((*paged_.kv_lengths)(b), 0)).length();
    const SequenceRange request = SequenceRange::request(*rows_.cu_q, length, b);
    return few_queries_ > 0 ? request.with_few_queries(few_queries_, rows_.pack_gqa) : request;
  }

  QueryRows rows_of(const SequenceRange& sequence, const Index& h, const Index& m) const {
    const Tile length = x_.Q.dim(2);
    const bool is_group = rows_.pack_gqa && !sequence.by_head;
    const Tile queries = is_group ? rows_.seqlen_q : sequence.seqlen_q(length);
    const QueryRows rows = sequence.by_head ? QueryRows::of_queries(h, m, *sequence.by_head)
                           : is_group       ? QueryRows::of_group(h, m, length, queries)
                                            : QueryRows::of_head(h, m, queries);
    if (!spec_.align_bottom_right && !paged_.kv_lengths) return rows;
    return rows.shifted(sequence.seqlen_kv - queries);
  }

  /// Returns a position in a request as the i32 that it is: in large caches subscripts are i64, but
  /// ranges of keys are derived from masks of i32 only.
  Tile position(const Tile& p) const {
    return paged_.kv_lengths || packs_queries() ? cast<i32>(p) : p;
  }

  KvBlockIterator kv_blocks_of(const TileResult& s, const Index& b, const Index& h, const Index& m,
                               const std::optional<Tile>& is_wanted,
                               const std::optional<KvPart>& part) const {
    const int keys = tiles_.block_kv;
    const SequenceRange& sequence = s.sequence;
    std::optional<KvIndexWindow> columns;
    if (lists_.blocks && sequence.kv_first)
      columns = KvIndexWindow::of_sequence(b.first(), *sequence.kv_first, sequence.seqlen_kv, keys);
    KvBlockIterator kv_blocks =
        lists_.blocks
            ? KvBlockIterator::list({*lists_.blocks, *lists_.counts, lists_.full, !spec_.blocks}, b,
                                    h, m.first() / tiles_.block_q, keys, std::move(columns))
            : traversal_.kv_blocks({s.rows.heads, s.rows.positions, position(s.rows.first),
                                    position(s.rows.last), s.rows.head_of_row},
                                   position(sequence.seqlen_kv), keys, first_key_divisor());
    // A user-defined range may exclude keys that the mask would keep, so an empty range must stay
    // empty. Without keys, nothing can be loaded.
    if (!spec_.kv_range && !no_keys_) kv_blocks = kv_blocks.with_min_one_block();
    if (const auto any = sequence.has_queries(m)) kv_blocks = kv_blocks.only_if(*any);
    if (is_wanted) return kv_blocks.only_if(*is_wanted);
    if (part) return kv_blocks.chunk(part->number, part->parts);
    return pass_ == SoftmaxPass::speculative && goes_backwards_ ? kv_blocks.reversed() : kv_blocks;
  }

  /// Returns a divisor of the first keys of blocks: blocks of pages begin where TMA can load them.
  int first_key_divisor() const {
    if (!paged_.table) return 1;
    return rows_of_page_boxes(x_.K.static_dim(2), tiles_.block_kv);
  }

  /// Returns the rescaling of this pass; `row_max` needs the exact maximum.
  Rescaling rescaling() const {
    if (pass_ == SoftmaxPass::speculative) return Rescaling::never;
    return rescaling_ == Rescaling::lazy && !softmax_.row_max ? Rescaling::lazy : Rescaling::exact;
  }

  /// The partials [first, end) of a tile.
  struct Partials {
    Tile tile, first, end;
  };

  /// Stores rows [first, end) of a tile, combined from its partials, `at_once` at a time. There are
  /// few rows. `origin`: the position of the tile's first row, 0 if absent.
  void store_combined(const TileResult& part, const Index& h, const Tile& first, const Tile& end,
                      const std::optional<Tile>& origin, const Partials& of, int at_once) const {
    for (auto some : steps(first, end, at_once)) {
      const Index m = origin ? some.shifted(*origin) : some;
      store({part.sequence, rows_of(part.sequence, h, m),
             shared_->combine_all(of.tile, of.first, of.end, some, dv_, factor_)},
            h, m);
    }
  }

  /// Computes the tile over a part of its keys and combines it with the parts of the other CTAs of
  /// the cluster. Returns the rows of this CTA's slice.
  TileResult of_cluster(const Index& b, const Index& h, const Index& m, const Index& mine,
                        const Tile& number, const Tile& parts) const {
    TileResult done = attend_tile(b, h, m, {}, KvPart{number, parts});
    done.state = combine_in_cluster(std::get<OnlineSoftmax>(done.state), factor_, programs_);
    done.rows = rows_of(done.sequence, h, mine);
    return done;
  }

  /// Computes the tile over all of its keys or a part; over none if `is_wanted` is false.
  TileResult attend_tile(const Index& b, const Index& h, const Index& m,
                         const std::optional<Tile>& is_wanted,
                         const std::optional<KvPart>& part = {}) const {
    const SequenceRange sequence = sequence_of(b);
    const auto [entry, at] = sequence.rows(m);
    // Rows of absent queries read as 0; O has no such rows.
    const Tile q = fill_absent(x_.Q(entry, h, at, d_), 0);
    TileResult s{sequence, rows_of(sequence, h, m), initial_state()};
    if (keys_in_m_) s.rows = s.rows.with_keys_in_m();
    const KvBlockIterator kv_blocks = kv_blocks_of(s, b, h, m, is_wanted, part);
    assume(scale_ > 0.0f);
    for (auto step : kv_blocks.steps()) {
      // Keys beyond seqlen_kv read as 0 (varlen: as keys of the next sequence). The mask excludes
      // them, so their softmax weights are 0.
      const Index n = kv_blocks.block(step);
      const Tile k = fill_absent(keys(x_.K, s, b, h, n, d_), 0),
                 v = fill_absent(visible_values(s, b, h, n, kv_blocks, step), 0);
      const Tile products = keys_in_m_ ? dot(k, q.T()) : dot(q, k.T());
      const Tile scores = masked(scored(products, s.rows, b, n), s, b, n, kv_blocks, step);
      // Without a score function there is nothing to reassociate.
      const auto of_block = [&] {
        return softmax_step(s.state, scores, factor_, kv_blocks.is_first(step));
      };
      const Tile weights = spec_.score ? reassociable(of_block) : of_block();
      Tile& acc = accumulator_of(s.state);
      acc = keys_in_m_ ? dot(v.T(), cast<T>(weights), acc) : dot(cast<T>(weights), v, acc);
    }
    if (keys_in_m_) s.state = std::get<OnlineSoftmax>(s.state).with_rows_in_m();
    return s;
  }

  SoftmaxState initial_state() const {
    const auto columns = static_cast<int>(dv_.block());
    if (keys_in_m_)
      return OnlineSoftmax::with_keys_in_m(tiles_.block_kv, tiles_.block_q, columns, rescaling());
    return initial_softmax_state(spec_.weighting, rescaling(), tiles_.block_q, columns,
                                 dtype_of<T>);
  }

  /// Returns the keys of a block as a row of the scores, or as a column with keys in M.
  Tile key_numbers(const Index& n) const { return expand(n, keys_in_m_ ? 1 : 0); }

  /// Loads the values of a block without keys that no row of the tile may attend to: their weights
  /// are 0, but 0 times NaN is NaN. Blocks begin at a visible key; the tensor ends without a crop.
  Tile visible_values(const TileResult& s, const Index& b, const Index& h, const Index& n,
                      const KvBlockIterator& kv_blocks, const Index& step) const {
    if (paged_.kv_lengths) return keys(x_.V, s, b, h, n, dv_);
    const SequenceRange& sequence = s.sequence;
    const Index kv = sequence.keys(n);
    std::optional<Tile> end = kv_blocks.visible_end(step);
    if (sequence.kv_first) end = *sequence.kv_first + end.value_or(sequence.seqlen_kv);
    if (end) assume(kv.first() >= 0);
    const Tile values = keys(x_.V, s, b, h, n, dv_);
    return end ? crop(values, 0, kv.first(), *end) : values;
  }

  Tile scored(const Tile& s, const QueryRows& rows, const Index& b, const Index& n) const {
    if (!spec_.score) return s;
    return reassociable([&] {
      // A score that does not depend on s may be a scalar, a row or a column.
      const Tile score = spec_.score(s * scale_, b, rows.heads, rows.positions, key_numbers(n));
      return scaled(broadcast(cast<f32>(score), {s.dim(0), s.dim(1)}));
    });
  }

  /// Converts scores to exponents of base 2, unless the weights are the scores themselves.
  Tile scaled(const Tile& s) const {
    return spec_.weighting == AttentionNormalization::none ? s : kScoresToBase2 * s;
  }

  /// Evaluates the mask, for one position of the rows or keys of a listed block if they share the
  /// result. Ranges may begin within such a block of the mask.
  Tile kept(const TileResult& s, const Index& b, const Index& n, const Tile& columns) const {
    const MaskDependence& of = traversal_.listed();
    const bool is_listed = lists_.blocks.has_value(),
               same_rows =
                   is_listed && !spec_.align_bottom_right && of.query_step % tiles_.block_q == 0,
               same_keys = is_listed && of.key_step % tiles_.block_kv == 0;
    return checked_mask(spec_.mask(position(b), position(s.rows.heads),
                                   position(same_rows ? s.rows.first : s.rows.positions),
                                   position(same_keys ? n.first() : columns)));
  }

  Tile masked(Tile scores, const TileResult& s, const Index& b, const Index& n,
              const KvBlockIterator& kv_blocks, const Index& step) const {
    const Tile columns = key_numbers(n);
    if_(kv_blocks.needs_mask(step, spec_.mask != nullptr), [&] {
      const Tile inside = columns < kv_blocks.key_end(s.sequence.seqlen_kv);
      scores = where(spec_.mask ? inside && kept(s, b, n, columns) : inside, scores,
                     masked_score(spec_.weighting));
    });
    return scores;
  }

  void store(const TileResult& s, const Index& h, const Index& m) const {
    if (const auto* softmax = std::get_if<OnlineSoftmax>(&s.state))
      return store_softmax(*softmax, s, h, m);
    const SequenceRange& sequence = s.sequence;
    const auto [entry, at] = sequence.rows(m);
    const auto* sticks = std::get_if<StickBreaking>(&s.state);
    const Tile& acc = sticks ? sticks->acc : std::get<UnnormalizedState>(s.state).acc;
    x_.O(entry, h, at, dv_) = sequence.mask_tail(acc, m);
    if (sticks && x_.Lse) (*x_.Lse)(entry, h, at) = sequence.mask_tail(sticks->log_remaining(), m);
  }

  void store_softmax(const OnlineSoftmax& state, const TileResult& s, const Index& h,
                     const Index& m) const {
    const SequenceRange& sequence = s.sequence;
    const auto [entry, at] = sequence.rows(m);
    const SoftmaxFinalizer by =
        softmax_.sinks ? SoftmaxFinalizer(state, factor_,
                                          fill_absent((*softmax_.sinks)(s.rows.head_of_row), 0))
                       : SoftmaxFinalizer(state, factor_);
    x_.O(entry, h, at, dv_) = sequence.mask_tail(state.acc * expand(by.inv_row_sum(), 1), m);
    if (x_.Lse) (*x_.Lse)(entry, h, at) = sequence.mask_tail(by.lse(), m);
    if (softmax_.row_max)
      (*softmax_.row_max)(entry, h, at) = sequence.mask_tail(scaled_row_max(state, factor_), m);
  }

  const AttentionSpec& spec_;
  const KvTraversal& traversal_;
  Rescaling rescaling_;
  const ForwardTensors<T>& x_;
  const SoftmaxTensors& softmax_;
  const ForwardRows& rows_;
  const PagedRows& paged_;
  const BlockListParams& lists_;
  const std::optional<In<i32, 3>>& order_;
  const std::optional<SplitKvPartials>& shared_;
  SoftmaxPass pass_;
  bool no_keys_, goes_backwards_;
  Tile scale_, factor_;
  Index d_, dv_;
  AttentionTileShape tiles_;
  bool keys_in_m_, copies_by_threads_;
  int programs_;     ///< CTAs of the cluster that shares a tile
  int few_queries_;  ///< AttentionCall::few_queries
  Tile group_;
};

}  // namespace

template <class T>
ForwardKernel<T> forward_kernel(const char* name, std::shared_ptr<const AttentionHeuristics> facts,
                                const ForwardTiles& tiles) {
  return kernel(name,
                [facts, tiles](
                    const ForwardTensors<T>& tensors, Scalar<f32> scale, const ForwardRows& rows,
                    const PagedRows& paged, const SoftmaxTensors& softmax,
                    const BlockListParams& lists, const FallbackParams& fallback,
                    const std::optional<In<i32, 3>>& order, const SplitKvWorkspace& split_kv) {
                  std::optional<SplitKvPartials> shared;
                  if (split_kv.acc_partials)
                    shared.emplace(SplitKvPartials{*split_kv.acc_partials, *split_kv.row_stats,
                                                   fallback.words, fallback.programs});
                  const ForwardTileProgram<T> program(*facts, tensors, softmax, rows, paged, lists,
                                                      order, shared, scale, rows.no_keys,
                                                      fallback.pass, tiles);
                  // The recompute pass skips unflagged tiles, varlen leaves rows outside of
                  // sequences unchanged, and unnormalized scores have no lse.
                  const bool is_second = fallback.pass == SoftmaxPass::recompute,
                             keeps_rows = is_second || rows.cu_q;
                  const bool sums_scores = facts->spec.weighting == AttentionNormalization::none;
                  if (keeps_rows) tensors.O.partial();
                  if (tensors.Lse && (keeps_rows || sums_scores)) tensors.Lse->partial();
                  if (softmax.row_max && keeps_rows) softmax.row_max->partial();
                  if (is_second)
                    program.recompute_tiles(FallbackFlags(fallback.words), fallback.programs);
                  else
                    program.all_tiles(FallbackFlags(fallback.words));
                })
      .prefer(tiles.plan());
}

template ForwardKernel<bf16> forward_kernel<bf16>(const char*,
                                                  std::shared_ptr<const AttentionHeuristics>,
                                                  const ForwardTiles&);
template ForwardKernel<f16> forward_kernel<f16>(const char*,
                                                std::shared_ptr<const AttentionHeuristics>,
                                                const ForwardTiles&);

}  // namespace tegula::kernels
