// Attention forward: one tile of queries against all visible keys, online softmax in base 2.
#include "kernels/attention/forward_kernel.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/attention/block_sizes.h"
#include "kernels/attention/query_rows.h"
#include "kernels/attention/row_weights.h"
#include "kernels/attention/split_keys.h"

namespace tegula {
namespace {

constexpr float kLog2E = std::numbers::log2e_v<float>;

/// Of a step of the second round, which is not there for speed: few.
constexpr int kKeysAgain = 64;

AttentionTiles traced_tiles(const SpecFacts& facts, const TileNeeds& needs, Round round) {
  const auto form = static_cast<TileForm>(tune("FORM", {0, 1, 2, 3}, 0));
  AttentionTiles t = tiles_of(form, needs, facts.way.reach());
  if (round == Round::second) t.keys = std::min(kKeysAgain, attention_tiles(needs).keys);
  return {tune("BM", kQueryTiles, t.queries), tune("BN", kKeyTiles, t.keys)};
}

/// What the trace of a kernel records for each tile of queries.
template <class T>
class Program {
 public:
  Program(const SpecFacts& facts, const ForwardTensors<T>& x, const SoftmaxTensors& softmax,
          const ForwardRows& rows, const ForwardLists& lists,
          const std::optional<In<i32, 3>>& order, const std::optional<SharedSoftmaxes>& shared,
          const Scalar<f32>& scale, bool no_keys, Round round)
      : spec_(facts.spec),
        way_(facts.way),
        tma_loads_(facts.schedule.tma_loads),
        rescaling_(facts.numerics.rescaling),
        x_(x),
        softmax_(softmax),
        rows_(rows),
        lists_(lists),
        order_(order),
        shared_(shared),
        round_(round),
        no_keys_(no_keys),
        goes_backwards_(facts.goes_backwards()),
        scale_(scale),
        // Exponents are factor * scores; what a score function gives is scaled as it is computed.
        factor_(spec_.score ? full<f32>(1) : scaled(scale_)),
        // What head dims lack of a multiple of 16 is absent.
        d_(slice(0, padded_head_dim(x.Q.fixed(3)))),
        dv_(slice(0, padded_head_dim(x.V.fixed(3)))),
        tiles_(traced_tiles(facts, facts.needs(d_.block(), dv_.block(), rows.packs_heads), round)),
        programs_(tune("SPLITS", kKeyClusters, 1)),
        group_(x.Q.dim(1) / x.K.dim(1)) {
    x.K.fixed(3), x.O.fixed(3);  // so that no guard is left where nothing is absent
    if (rows.cu_q) any_number();
    any_length();
  }

  /// Every tile once.
  void all_tiles(const Doubts& doubts) const {
    if (order_) return tiles_in_order();
    if (rows_.cu_q) return tiles_of_sequences(doubts);
    const bool is_masked = spec_.mask || spec_.range || spec_.blocks;
    const int rows = tiles_.queries;
    if (shared_) return tiles_of_several();
    if (programs_ > 1) return tiles_of_clusters();
    for (auto [b, h, m] : grid(space(), 1, 1, rows, heavy_first.when(is_masked),
                               multicast(!is_masked), tma_loads(reads_boxes())))
      one_tile(b, h, m, doubts);
  }

  /// A tile for each cluster, whose programs share the keys. No doubts.
  void tiles_of_clusters() const {
    for (auto [b, h, m] :
         grid(space(), 1, 1, tiles_.queries, cluster(programs_), tma_loads(reads_boxes()))) {
      const Index mine = cluster_share(m);
      store(of_cluster(b, h, m, mine, cluster_rank(), Tile(programs_)), h, mine);
    }
  }

  /// A tile for each of several clusters, of which the last one to have done stores.
  void tiles_of_several() const {
    const Tile entries = x_.O.dim(0), heads = x_.O.dim(1);
    const SharedSoftmaxes& shared = *shared_;
    for (auto [b, h, c] : grid({entries, heads, shared.clusters}, 1, 1, 1, cluster(programs_),
                               tma_loads(reads_boxes()))) {
      const Index m = slice(0, tiles_.queries), mine = cluster_share(m);
      const Tile tile = cast<i32>(b.first() * heads + h.first()), cluster = c.first(),
                 rank = cluster_rank();
      const Weighted part =
          of_cluster(b, h, m, mine, cluster * programs_ + rank, shared.clusters * programs_);
      const auto& softmax = std::get<OnlineSoftmax>(part.state);
      if_(shared.leave(softmax, tile, cluster, mine, dv_, tile * programs_ + rank), [&] {
        // Rows that there are, a few at a time: as a rule there are not many.
        const Tile end = min(mine.first() + mine.block(), x_.Q.dim(2));
        for (auto some : steps(mine.first(), end, SharedSoftmaxes::kRows))
          store({part.sequence, rows_of(part.sequence, h, some),
                 shared.all(tile, some, dv_, factor_)},
                h, some);
      });
    }
  }

  /// The last ones first, which see most where masks end at the query.
  void tiles_of_sequences(const Doubts& doubts) const {
    const SequenceTiles tiles(*rows_.cu_q, tiles_.queries);
    const Tile count = tiles.count(x_.O.dim(2));
    for (auto [h, i] : grid({x_.O.dim(1), count}, 1, 1, tma_loads(reads_boxes()))) {
      const auto [b, m] = tiles.at(count - 1 - i.first());
      one_tile(b, h, m, doubts);
    }
  }

  void one_tile(const Index& b, const Index& h, const Index& m, const Doubts& doubts) const {
    const Weighted done = weighted(b, h, m, {});
    store(done, h, m);
    if (round_ != Round::first) return;
    const auto& softmax = std::get<OnlineSoftmax>(done.state);
    const Tile doubtful = done.sequence.own(softmax.doubtful(), m);
    doubts.mark(number(b, h, m), fill_absent(doubtful, false));
  }

  /// The first tile of each head's order, of all heads, then the second of each. Lists leave no
  /// doubts.
  void tiles_in_order() const {
    const Tile count = cdiv(longest(), tiles_.queries);
    const Tile entries = rows_.cu_q ? rows_.cu_q->dim(0) - 1 : x_.O.dim(0);
    for (auto [r, b, h] : grid({count, entries, x_.O.dim(1)}, 1, 1, 1, tma_loads(reads_boxes()))) {
      const Tile tile = fill_absent((*order_)(b, h, r), 0);
      assume(tile >= 0), assume(tile < count);
      const Index m = slice(tile * tiles_.queries, tiles_.queries);
      store(weighted(b, h, m, {}), h, m);
    }
  }

  /// Those that are marked, dealt among programs.
  void marked_tiles(const Doubts& doubts, const Tile& programs) const {
    for (auto p : grid(Space(programs), 1)) {
      wait_for_previous_kernels();
      const auto tiles = tiles_of(space(), 1, 1, tiles_.queries);
      const Tile any = doubts.any(), left = max(tiles.count() - p.first(), 0),
                 mine = where(any, cdiv(left, programs), 0);
      for (auto i : steps(mine, 1)) {
        const auto [b, h, m] = tiles.at(cast<i32>(p.first()) + cast<i32>(i.first()) * programs);
        const Tile is_marked = doubts.is_marked(number(b, h, m));
        const Weighted done = weighted(b, h, m, is_marked);
        if_(is_marked, [&] { store(done, h, m); });
      }
      if_(any, [&] { doubts.leave(programs); });
    }
  }

 private:
  struct Weighted {
    Sequence sequence;
    Rows rows;
    RowWeights state;
  };

  /// Of a tile's keys.
  struct Part {
    Tile number, parts;
  };

  bool reads_boxes() const { return spec_.score && tma_loads_; }

  /// What divides lengths is of no use: rows that a tile lacks are absent, and of what is stored by
  /// rows, each thread has some that do not lie side by side.
  void any_length() const {
    for (const View* v : std::initializer_list<const View*>{&x_.Q, &x_.K, &x_.V, &x_.O})
      v->any_extent(2);
    const auto by_row = [](const View& v) { v.any_extent(2), v.any_stride(0), v.any_stride(1); };
    if (x_.Lse) by_row(*x_.Lse);
    if (softmax_.row_max) by_row(*softmax_.row_max);
    if (!shared_) return;
    for (const InOut<f32, 4>* v : {&shared_->outs, &shared_->facts})
      v->any_extent(0), v->any_extent(1), v->any_extent(2), v->any_extent(3);
  }

  /// Of sequences.
  void any_number() const {
    rows_.cu_q->any_extent(0), rows_.cu_kv->any_extent(0);
    if (lists_.blocks) lists_.blocks->any_extent(0), lists_.counts->any_extent(0);
    if (lists_.full) lists_.full->any_extent(0);
    if (order_) order_->any_extent(0);
  }

  Space space() const {
    if (!rows_.cu_q) return Space(x_.O);
    return Space({rows_.cu_q->dim(0) - 1, x_.O.dim(1), rows_.q_length});
  }

  /// Rows of the longest sequence.
  Tile longest() const { return rows_.cu_q ? rows_.q_length : x_.O.dim(2); }

  Tile number(const Index& b, const Index& h, const Index& m) const {
    const Tile tiles = cdiv(longest(), tiles_.queries);
    return cast<i32>((b.first() * x_.O.dim(1) + h.first()) * tiles + m.first() / tiles_.queries);
  }

  Sequence sequence_of(const Index& b) const {
    return rows_.cu_q ? Sequence::packed(*rows_.cu_q, *rows_.cu_kv, b) : Sequence{b, x_.K.dim(2)};
  }

  Rows rows_of(const Sequence& sequence, const Index& h, const Index& m) const {
    const Tile length = x_.Q.dim(2);
    const Rows rows =
        rows_.packs_heads ? Rows::of_group(h, m, length, rows_.q_length) : Rows::of_head(h, m);
    if (!spec_.queries_at_end) return rows;
    const Tile queries = rows_.packs_heads ? rows_.q_length : sequence.q_length(length);
    return rows.shifted(sequence.kv_length - queries);
  }

  Visits visits_of(const Weighted& s, const Index& b, const Index& h, const Index& m,
                   const std::optional<Tile>& is_wanted, const std::optional<Part>& part) const {
    const int keys = tiles_.keys;
    const Sequence& sequence = s.sequence;
    std::optional<ListColumns> columns;
    if (lists_.blocks && sequence.kv_first)
      columns = ListColumns::of_sequence(b.first(), *sequence.kv_first, sequence.kv_length, keys);
    Visits visits = lists_.blocks
                        ? Visits::list({*lists_.blocks, *lists_.counts, lists_.full, !spec_.blocks},
                                       b, h, m.first() / tiles_.queries, keys, std::move(columns))
                        : way_.visits(s.rows, sequence.kv_length, keys);
    // What a given range leaves out, no mask stops; of no keys there is nothing to bring.
    if (!spec_.range && !no_keys_) visits = visits.with_a_step();
    if (const auto any = sequence.has_queries(m)) visits = visits.if_any(*any);
    if (is_wanted) return visits.if_any(*is_wanted);
    if (part) return visits.part(part->number, part->parts);
    return round_ == Round::first && goes_backwards_ ? visits.backwards() : visits;
  }

  /// `row_max` needs the exact maximum.
  Rescaling rescaling() const {
    if (round_ == Round::first) return Rescaling::never;
    return rescaling_ == Rescaling::lazy && !softmax_.row_max ? Rescaling::lazy : Rescaling::exact;
  }

  /// Over a part of the keys that the tile visits, and those that the cluster's other programs have
  /// visited: of the rows that are this program's.
  Weighted of_cluster(const Index& b, const Index& h, const Index& m, const Index& mine,
                      const Tile& number, const Tile& parts) const {
    Weighted done = weighted(b, h, m, {}, Part{number, parts});
    done.state = merged(std::get<OnlineSoftmax>(done.state), factor_, programs_);
    done.rows = rows_of(done.sequence, h, mine);
    return done;
  }

  /// Over all keys that the tile visits, or a part of them, of none unless it `is_wanted`.
  Weighted weighted(const Index& b, const Index& h, const Index& m,
                    const std::optional<Tile>& is_wanted,
                    const std::optional<Part>& part = {}) const {
    const Sequence sequence = sequence_of(b);
    const Index &entry = sequence.entry, at = sequence.queries(m);
    // The row of a query that is not there reads as 0, and O has no such row.
    const Tile q = fill_absent(x_.Q(entry, h, at, d_), 0);
    Weighted s{sequence, rows_of(sequence, h, m),
               row_weights(spec_.weighting, rescaling(), tiles_.queries,
                           static_cast<int>(dv_.block()), dtype_of<T>)};
    const Visits visits = visits_of(s, b, h, m, is_wanted, part);
    assume(scale_ > 0.0f);
    for (auto step : visits.steps()) {
      // Keys behind the last read as 0, or as those of the next sequence; the mask stops them, and
      // their weights are 0.
      const Index n = visits.block(step), kv = sequence.keys(n);
      const Tile keys = fill_absent(x_.K(entry, h / group_, kv, d_), 0),
                 values = fill_absent(x_.V(entry, h / group_, kv, dv_), 0);
      const Tile scores = masked(scored(dot(q, keys.T()), s.rows, b, n), s, b, n, visits, step);
      // Without a score there is nothing to rearrange.
      const auto of_block = [&] { return weigh(s.state, scores, factor_, visits.is_first(step)); };
      const Tile weights = spec_.score ? relaxed(of_block) : of_block();
      Tile& out = sums_of(s.state);
      out = dot(cast<T>(weights), values, out);
    }
    return s;
  }

  Tile scored(const Tile& s, const Rows& rows, const Index& b, const Index& n) const {
    if (!spec_.score) return s;
    return relaxed([&] {
      // A score that does not look at s may be one number, a row or a column.
      const Tile score = spec_.score(s * scale_, b, rows.heads, rows.positions, expand(n, 0));
      return scaled(broadcast(cast<f32>(score), {s.dim(0), s.dim(1)}));
    });
  }

  /// What weights are computed of: exponents of 2 but for weights that are scores.
  Tile scaled(const Tile& s) const { return spec_.weighting == Weighting::scores ? s : kLog2E * s; }

  Tile masked(Tile scores, const Weighted& s, const Index& b, const Index& n, const Visits& visits,
              const Index& step) const {
    const Tile columns = expand(n, 0);
    if_(visits.needs_mask(step, spec_.mask != nullptr), [&] {
      const Tile inside = columns < s.sequence.kv_length;
      scores = where(
          spec_.mask ? inside && spec_.mask(b, s.rows.heads, s.rows.positions, columns) : inside,
          scores, unseen_score(spec_.weighting));
    });
    return scores;
  }

  void store(const Weighted& s, const Index& h, const Index& m) const {
    if (const auto* softmax = std::get_if<OnlineSoftmax>(&s.state))
      return store_softmax(*softmax, s, h, m);
    const Sequence& sequence = s.sequence;
    const Index &entry = sequence.entry, at = sequence.queries(m);
    const auto* sticks = std::get_if<StickBreaking>(&s.state);
    const Tile& out = sticks ? sticks->out : std::get<ScoresAsWeights>(s.state).out;
    x_.O(entry, h, at, dv_) = sequence.own(out, m);
    if (sticks && x_.Lse) (*x_.Lse)(entry, h, at) = sequence.own(sticks->log_left(), m);
  }

  void store_softmax(const OnlineSoftmax& state, const Weighted& s, const Index& h,
                     const Index& m) const {
    const Sequence& sequence = s.sequence;
    const Index &entry = sequence.entry, at = sequence.queries(m);
    const Normaliser by =
        softmax_.sinks
            ? Normaliser(state, factor_, fill_absent((*softmax_.sinks)(s.rows.head_of_row), 0))
            : Normaliser(state, factor_);
    x_.O(entry, h, at, dv_) = sequence.own(state.out * expand(by.inverse(), 1), m);
    if (x_.Lse) (*x_.Lse)(entry, h, at) = sequence.own(by.lse(), m);
    if (softmax_.row_max)
      (*softmax_.row_max)(entry, h, at) = sequence.own(row_maximum(state, factor_), m);
  }

  const AttentionSpec& spec_;
  const Way& way_;
  bool tma_loads_;
  Rescaling rescaling_;
  const ForwardTensors<T>& x_;
  const SoftmaxTensors& softmax_;
  const ForwardRows& rows_;
  const ForwardLists& lists_;
  const std::optional<In<i32, 3>>& order_;
  const std::optional<SharedSoftmaxes>& shared_;
  Round round_;
  bool no_keys_, goes_backwards_;
  Tile scale_, factor_;
  Index d_, dv_;
  AttentionTiles tiles_;
  int programs_;  ///< of a cluster that shares a tile
  Tile group_;
};

}  // namespace

template <class T>
ForwardKernel<T> forward_kernel(const char* name, std::shared_ptr<const SpecFacts> facts) {
  return kernel(
      name, [facts](const ForwardTensors<T>& tensors, Scalar<f32> scale, const ForwardRows& rows,
                    const SoftmaxTensors& softmax, const ForwardLists& lists,
                    const FallbackParams& fallback, const std::optional<In<i32, 3>>& order,
                    const SplitKvWorkspace& split_kv) {
        std::optional<SharedSoftmaxes> shared;
        if (split_kv.acc_partials)
          shared.emplace(SharedSoftmaxes{*split_kv.acc_partials, *split_kv.row_stats,
                                         fallback.words, fallback.programs});
        const Program<T> program(*facts, tensors, softmax, rows, lists, order, shared, scale,
                                 rows.no_keys, fallback.pass);
        // Tiles that are not marked are right, rows of no sequence stay, and scores have no sum.
        const bool is_second = fallback.pass == Round::second, keeps_rows = is_second || rows.cu_q;
        const bool sums_scores = facts->spec.weighting == Weighting::scores;
        if (keeps_rows) tensors.O.partial();
        if (tensors.Lse && (keeps_rows || sums_scores)) tensors.Lse->partial();
        if (softmax.row_max && keeps_rows) softmax.row_max->partial();
        if (is_second)
          program.marked_tiles(Doubts(fallback.words), fallback.programs);
        else
          program.all_tiles(Doubts(fallback.words));
      });
}

template ForwardKernel<bf16> forward_kernel<bf16>(const char*, std::shared_ptr<const SpecFacts>);
template ForwardKernel<f16> forward_kernel<f16>(const char*, std::shared_ptr<const SpecFacts>);

}  // namespace tegula
