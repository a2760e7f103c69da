// Attention forward: one tile of queries against all visible keys, online softmax in base 2.
#include "tegula/kernels/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numbers>

#include "kernels/attention/arguments.h"
#include "kernels/attention/block_sizes.h"
#include "kernels/attention/online_softmax.h"
#include "kernels/attention/query_rows.h"
#include "kernels/attention/spec_facts.h"
#include "kernels/attention/visibility.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

constexpr float kLog2E = std::numbers::log2e_v<float>;

template <class T>
using ForwardKernel =
    Kernel<In<T, 4>, In<T, 4>, In<T, 4>, Out<T, 4>, Out<f32, 3>, Scalar<f32>, bool, bool,
           Scalar<i32>, std::optional<In<i32, 1>>, std::optional<In<i32, 1>>,
           std::optional<In<f32, 1>>, std::optional<Out<f32, 3>>, std::optional<In<i32, 4>>,
           std::optional<In<i32, 3>>, std::optional<In<i32, 3>>>;

AttentionTiles traced_tiles(const SpecFacts& facts, const TileNeeds& needs) {
  const auto form = static_cast<TileForm>(tune("FORM", {0, 1, 2}, 0));
  const AttentionTiles t = tiles_of(form, needs, facts.way.reach());
  return {tune("BM", kQueryTiles, t.queries), tune("BN", kKeyTiles, t.keys)};
}

/// Rows of Q are positions of one head; those of all heads of a group, q_length each, with
/// `packs_heads`; those of many sequences, none longer than q_length, with tables. Which blocks are
/// visited is the lists' to say, where there are some. With `no_keys` there may be none.
template <class T>
ForwardKernel<T> make_kernel(std::shared_ptr<const SpecFacts> facts) {
  return kernel(
      "attention",
      [facts](In<T, 4> Q, In<T, 4> K, In<T, 4> V, Out<T, 4> O, Out<f32, 3> Lse, Scalar<f32> scale,
              bool packs_heads, bool no_keys, Scalar<i32> q_length, std::optional<In<i32, 1>> cu_q,
              std::optional<In<i32, 1>> cu_kv, std::optional<In<f32, 1>> sinks,
              std::optional<Out<f32, 3>> row_max, std::optional<In<i32, 4>> blocks,
              std::optional<In<i32, 3>> counts, std::optional<In<i32, 3>> full_counts) {
        const AttentionSpec& spec = facts->spec;
        // What head dims lack of a multiple of 16 is absent.
        const Index d = slice(0, padded_head_dim(Q.fixed(3))),
                    dv = slice(0, padded_head_dim(V.fixed(3)));
        K.fixed(3), O.fixed(3);  // so that no guard is left where nothing is absent
        const auto [BM, BN] = traced_tiles(*facts, facts->needs(d.block(), dv.block()));
        if (cu_q) cu_q->any_extent(0), cu_kv->any_extent(0);
        if (cu_q || packs_heads) {
          for (const View* v : std::initializer_list<const View*>{&Q, &K, &V, &O, &Lse})
            v->any_extent(2);
          if (row_max) row_max->any_extent(2);
        }
        const Visibility visibility(spec);  // of this trace: what the mask captured may change
        const Tile group = Q.dim(1) / K.dim(1);
        const Space space = cu_q ? Space({cu_q->dim(0) - 1, O.dim(1), q_length}) : Space(O);
        const bool is_masked = spec.mask || spec.range || spec.blocks;
        for (auto [b, h, m] : grid(space, 1, 1, BM, heavy_first.when(is_masked))) {
          const Sequence sequence =
              cu_q ? Sequence::packed(*cu_q, *cu_kv, b) : Sequence{b, K.dim(2)};
          const Index &entry = sequence.entry, at = sequence.queries(m);
          Rows rows = packs_heads ? Rows::of_group(h, m, Q.dim(2), q_length) : Rows::of_head(h, m);
          if (spec.queries_at_end) {
            const Tile queries = packs_heads ? Tile(q_length) : sequence.q_length(Q.dim(2));
            rows = rows.shifted(sequence.kv_length - queries);
          }
          const Tile q = cu_q ? fill_absent(Q(entry, h, at, d), 0) : Q(entry, h, at, d);
          // The largest score is what nothing is rescaled lazily for.
          OnlineSoftmax state(BM, static_cast<int>(dv.block()),
                              row_max ? Rescaling::exact : spec.rescaling);
          const Tile length = sequence.kv_length;
          Visits visits = blocks ? Visits::list({*blocks, *counts, *full_counts, !spec.blocks}, b,
                                                h, m.first() / BM, BN)
                                 : visibility.of(rows, length, BN);
          // What a given range leaves out, no mask stops; of no keys there is nothing to bring.
          if (!spec.range && !no_keys) visits = visits.with_a_step();
          if (const auto any = sequence.has_queries(m)) visits = visits.if_any(*any);
          // Exponents are factor * scores; what a score function gives is scaled as it is computed.
          const Tile factor = spec.score ? full<f32>(1) : kLog2E * scale;
          if (spec.score) assume(scale > 0.0f);
          for (auto step : visits.steps()) {
            // Keys behind the last read as 0, or as those of the next sequence; the mask stops
            // them, and their weights are 0.
            const Index n = visits.block(step), kv = sequence.keys(n);
            const Tile columns = expand(n, 0), keys = fill_absent(K(entry, h / group, kv, d), 0),
                       values = fill_absent(V(entry, h / group, kv, dv), 0);
            Tile s = dot(q, keys.T());
            if (spec.score)
              s = relaxed([&] {
                return kLog2E * spec.score(s * scale, b, rows.heads, rows.positions, columns);
              });
            if_(visits.needs_mask(step, spec.mask != nullptr), [&] {
              const Tile inside = columns < length;
              s = where(
                  spec.mask ? inside && spec.mask(b, rows.heads, rows.positions, columns) : inside,
                  s, -INFINITY);
            });
            // Without a score there is nothing to rearrange.
            const auto weigh = [&] { return state.step(s, factor); };
            const Tile weights = spec.score ? relaxed(weigh) : weigh();
            state.out = dot(cast<T>(weights), values, state.out);
          }
          const Normaliser by =
              sinks ? Normaliser(state, factor, fill_absent((*sinks)(rows.head_of_row), 0))
                    : Normaliser(state, factor);
          O(entry, h, at, dv) = sequence.own(state.out * expand(by.inverse(), 1), m);
          Lse(entry, h, at) = sequence.own(by.lse(), m);
          if (row_max) (*row_max)(entry, h, at) = sequence.own(row_maximum(state, factor), m);
        }
      });
}

/// The kernels of one element type: `few` for fewer rows than half a tile, `wide` for many keys,
/// `tall` for many rows, `many` for what is left.
template <class T>
struct KernelsOf {
  explicit KernelsOf(std::shared_ptr<const SpecFacts> of)
      : facts(std::move(of)),
        many(with_tiles(make_kernel<T>(facts))),
        few(many.with({{"BM", 64}})),
        wide(many.with({{"FORM", static_cast<int>(TileForm::wide)}})),
        tall(many.with({{"FORM", static_cast<int>(TileForm::tall)}})),
        latest(&many) {}

  ForwardKernel<T> with_tiles(const ForwardKernel<T>& k) const {
    const auto tiles = facts->given_tiles();
    return tiles ? k.with({{"BM", tiles->queries}, {"BN", tiles->keys}}) : k;
  }

  const ForwardKernel<T>& kernel_for(const AttentionCall& c) const {
    if (c.packs_heads && c.Q.size(2) <= 64) return few;
    if (facts->given_tiles()) return many;
    const TileForm form = facts->form(c);
    return form == TileForm::tall ? tall : form == TileForm::wide ? wide : many;
  }

  void operator()(const Stream& stream, const AttentionCall& c, float scale,
                  const ListArgs& lists) const {
    const ForwardKernel<T>& kernel = kernel_for(c);
    kernel(stream, c.Q, c.K, c.V, c.O, c.extras.lse, scale, c.packs_heads, c.K.size(2) == 0,
           c.q_length, c.lengths.q, c.lengths.kv, c.extras.sinks, c.extras.row_max, lists.blocks,
           lists.counts, lists.full);
    latest = &kernel;
  }

  std::shared_ptr<const SpecFacts> facts;
  ForwardKernel<T> many, few, wide, tall;
  mutable std::atomic<const ForwardKernel<T>*> latest;
};

void check_tiles(const AttentionTiles& t) {
  const auto is_in = [](std::initializer_list<int> list, int n) {
    return std::ranges::find(list, n) != list.end();
  };
  if (!is_in(kQueryTiles, t.queries) || !is_in(kKeyTiles, t.keys))
    refuse("tiles are " + std::to_string(t.queries) + " x " + std::to_string(t.keys),
           "give 16, 32, 64, 128 or 192 queries and a multiple of 16 keys up to 224");
}

void check_spec(const AttentionSpec& spec) {
  if (spec.tiles) check_tiles(*spec.tiles);
  if (!spec.blocks) return;
  if (spec.range || spec.full)
    refuse("`blocks` is given together with `range` or `full`",
           "leave those out: the list says which blocks are visited and which are full");
  check_blocks(*spec.blocks);
}

}  // namespace

KvRange causal_range(const Tile&, const Tile& last, const Tile& kv_length) {
  return {full<i32>(0), min(last + 1, kv_length)};
}
KvRange causal_full(const Tile& first, const Tile&, const Tile&) {
  return {full<i32>(0), first + 1};
}

struct Attention::Kernels {
  explicit Kernels(const AttentionSpec& s)
      : facts(std::make_shared<const SpecFacts>(s)), of_bf16(facts), of_f16(facts) {}

  const AttentionSpec& spec() const { return facts->spec; }

  void run(const Stream& stream, const AttentionCall& call) const {
    const float scale = spec().scale.value_or(1.0f / std::sqrt(static_cast<float>(call.Q.size(3))));
    if (!(scale > 0)) refuse("scale is " + std::to_string(scale), "give a positive one");
    const ListArgs lists_of_call =
        facts->lists(stream, call, attention_tiles(facts->needs(call.Q.size(3), call.V.size(3))));
    if (call.Q.dtype() == DType::f16)
      of_f16(stream, call, scale, lists_of_call);
    else
      of_bf16(stream, call, scale, lists_of_call);
  }

  std::shared_ptr<const SpecFacts> facts;
  KernelsOf<bf16> of_bf16;
  KernelsOf<f16> of_f16;
};

Attention::Attention(AttentionSpec spec) {
  check_spec(spec);
  kernels_ = std::make_shared<const Kernels>(spec);
}

void Attention::operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O, const AttentionExtras& extras) const {
  const AttentionSpec& spec = kernels_->spec();
  AttentionCall call = dense_call(Q, K, V, O, extras);
  if (spec.queries_at_end) require_keys_for_queries(Q, K);
  // A derived list is of tiles of one head, and saves more than packing.
  const std::optional<bool> packs =
      kernels_->facts->way.is_listed() && !spec.pack_heads ? std::optional(false) : spec.pack_heads;
  if (!spec.blocks) call = with_heads_packed(std::move(call), packs);
  kernels_->run(stream, call);
}

void Attention::operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O, const Tensor& Lse) const {
  (*this)(stream, Q, K, V, O, AttentionExtras{.lse = Lse});
}

void Attention::operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O) const {
  (*this)(stream, Q, K, V, O, AttentionExtras{});
}

void Attention::operator()(const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O) const {
  (*this)(Stream(Q.device()), Q, K, V, O);
}

void Attention::varlen(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                       const Tensor& O, const CuSeqlens& lengths,
                       const AttentionExtras& extras) const {
  kernels_->run(stream, varlen_call(Q, K, V, O, lengths, extras));
}

std::string Attention::explain(DType dtype) const {
  const std::string kernel = dtype == DType::f16 ? kernels_->of_f16.latest.load()->explain()
                                                 : kernels_->of_bf16.latest.load()->explain();
  const Way& way = kernels_->facts->way;
  return kernel + "keys visited: " + way.text() + "\n" + way.explain();
}
std::string Attention::dump(std::string_view verb, DType dtype) const {
  return dtype == DType::f16 ? kernels_->of_f16.latest.load()->dump(verb)
                             : kernels_->of_bf16.latest.load()->dump(verb);
}

}  // namespace tegula
