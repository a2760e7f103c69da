// Attention cases with masks and score functions. Tensors: Q, K, V, O, Lse, then those of the case.
#include "bench/attention_cases.h"

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"

namespace tegula::bench {
using namespace kernels;
namespace {

using Tensors = std::span<const Tensor>;

void run(const Attention& a, const Stream& s, Tensors t) { a(s, t[0], t[1], t[2], t[3], t[4]); }

/// Returns one attention per key, so that later calls reuse the compiled kernels.
template <class Key, class Make>
const Attention& made_once(std::map<Key, Attention>& made, const Key& key, const Make& make) {
  const auto at = made.find(key);
  return at != made.end() ? at->second : made.emplace(key, make()).first->second;
}

// The spec of each case. Scalars of a spec have the values of the last call.
AttentionSpec unmasked(Tensors, double) { return {}; }

AttentionSpec below_diagonal(Tensors, double) { return {.mask = masks::causal()}; }

AttentionSpec window(Tensors, double length) {
  static Scalar<i32> now;
  now.set(static_cast<i32>(length));
  return {.mask = masks::sliding_window(now)};
}

AttentionSpec prefix(Tensors, double length) {
  static Scalar<i32> now;
  now.set(static_cast<i32>(length));
  return {.mask = masks::prefix_lm(now)};
}

/// Further tensors: the document of each position, the first position of each document (i32).
AttentionSpec document(Tensors t, double) { return {.mask = masks::packed_causal(t[5], t[6])}; }

AttentionSpec alibi(Tensors t, double) {
  return {.mask = masks::causal(), .score = scores::alibi(static_cast<int>(t[0].size(1)))};
}

template <scores::Tanh kind>
AttentionSpec softcap(Tensors, double cap) {
  static Scalar<f32> now = 1.0f;
  now.set(static_cast<float>(cap));
  return {.mask = masks::causal(), .score = scores::softcap(now, kind)};
}

/// Further tensors: the table [buckets, heads], f32. number: the least distance of the last bucket,
/// which all larger distances share.
AttentionSpec t5(Tensors t, double number) {
  return {.mask = masks::causal(), .score = scores::t5_bias(t[5], static_cast<int>(number), false)};
}

/// Further tensors: the table [distances, heads], f32. number: the row of distance 0.
AttentionSpec distances(Tensors t, double number) {
  return {.mask = masks::causal(), .score = scores::distance_bias(t[5], static_cast<int>(number))};
}

/// Further tensors: the bias [batch, heads, queries, keys].
AttentionSpec full_bias(Tensors t, double) { return {.score = scores::bias(t[5])}; }

/// Further tensors: the table [cells of queries, cells of keys], i32; a cell has `number` queries
/// and `number` keys, and its entry states whether the mask keeps them.
AttentionSpec table(Tensors t, double number) {
  return {.mask = [cells = t[5], n = static_cast<int>(number)](const Tile&, const Tile&,
                                                               const Tile& q, const Tile& kv) {
    return view<i32, 2>(cells)(q / n, kv / n) != 0;
  }};
}

/// Given tiles: number = queries * 1'000'000 + keys * 100 + causal (1) or not (0).
AttentionSetup tiles(Tensors, double number) {
  const auto n = static_cast<std::int64_t>(number);
  const AttentionTileShape tiles{static_cast<int>(n / 1'000'000),
                                 static_cast<int>(n / 100 % 10'000)};
  return {AttentionSpec{.mask = n % 100 == 1 ? masks::causal() : Mask()}, {.tiles = tiles}};
}

/// number: the programs that share a tile's keys.
AttentionSetup splits(Tensors, double number) {
  return {AttentionSpec{}, {.split_kv = static_cast<int>(number)}};
}

using NumberedSetup = std::function<AttentionSetup(Tensors, double)>;

/// Returns a case with one attention per key of a call.
template <class Key>
Case keyed(const char* name, const NumberedSetup& setup, Key (*key)(Tensors, double)) {
  const auto made = std::make_shared<std::map<Key, Attention>>();
  return {name,
          [=](const Stream& s, Tensors t, double number) {
            run(made_once(*made, key(t, number), [&] { return setup(t, number).made(); }), s, t);
          },
          setup};
}

/// Returns a case of the backward pass: O and Lse are inputs, and the last tensors are dO, dQ, dK
/// and dV, followed, if requested, by the gradient of the first further tensor.
template <class Key>
Case backward(const char* name, const NumberedSetup& setup, Key (*key)(Tensors, double),
              bool of_table = false) {
  const auto made = std::make_shared<std::map<Key, Attention>>();
  return {name, [=](const Stream& s, Tensors t, double number) {
            const Tensors last = t.last(of_table ? 5 : 4);
            AttentionInputGradients into{.Q = last[1], .K = last[2], .V = last[3]};
            if (of_table) into.captured = {{t[5], last[4]}};
            made_once(*made, key(t, number), [&] {
              return setup(t, number).made();
            }).backward(s, t[0], t[1], t[2], {.O = t[3], .lse = t[4]}, {.O = last[0]}, into);
          }};
}

/// Returns a case with a single attention object, whose Scalars are set at each call.
Case single(const char* name, const NumberedSetup& setup) {
  const auto made = std::make_shared<std::optional<Attention>>();
  return {name,
          [=](const Stream& s, Tensors t, double number) {
            const AttentionSetup now = setup(t, number);
            if (!*made) made->emplace(now.made());
            run(**made, s, t);
          },
          setup};
}

/// Consecutive sequences. Further tensors: their starts (CuSeqlens). number: the length of the
/// longest one.
Case varlen(const char* name, AttentionSpec spec) {
  const Attention attention(std::move(spec));
  return {name, [=](const Stream& s, Tensors t, double number) {
            attention.varlen(s, t[0], t[1], t[2], t[3],
                             {t[5], t[5], static_cast<std::int64_t>(number)}, {.lse = t[4]});
          }};
}

/// Number of layers that share a list in the case attention_table_layers.
constexpr int kLayers = 12;

/// Attention under the mask `table`, and attention over the block list built from that mask.
struct ListedLayers {
  ListedLayers(Tensors t, double number)
      : maker(table(t, number)),
        list(maker.block_list(Stream(t[0].device()), t[0], t[1])),
        layer({.mask = table(t, number).mask, .blocks = list}) {}

  Attention maker;
  BlockList list;
  Attention layer;
};

/// The list is built once per call, then all layers use it. Tensors and number are those of
/// `table`.
Case table_layers() {
  using Key = std::tuple<void*, std::int64_t, std::int64_t, double>;
  const auto made = std::make_shared<std::map<Key, ListedLayers>>();
  return {"attention_table_layers", [made](const Stream& s, Tensors t, double number) {
            const Key key{t[5].data(), t[0].size(2), t[1].size(2), number};
            const ListedLayers& layers = made->try_emplace(key, t, number).first->second;
            layers.maker.write_block_list(s, t[0], t[1], layers.list);
            for (int i = 0; i < kLayers; ++i) run(layers.layer, s, t);
          }};
}

// The key includes extents, because freed memory may be reused for other extents.
using DocumentKey = std::tuple<void*, void*, std::int64_t, std::int64_t>;
using TableKey = std::tuple<void*, std::int64_t, std::int64_t, std::int64_t>;
DocumentKey document_key(Tensors t, double) {
  return {t[5].data(), t[6].data(), t[5].size(0), t[6].size(0)};
}
TableKey table_key(Tensors t, double number) {
  return {t[5].data(), t[5].size(0), t[5].size(1), static_cast<std::int64_t>(number)};
}
std::int64_t heads_key(Tensors t, double) { return t[0].size(1); }
std::int64_t number_key(Tensors, double number) { return static_cast<std::int64_t>(number); }

}  // namespace

std::vector<Case> attention_cases() {
  return {single("attention_window", window),
          single("attention_prefix", prefix),
          keyed("attention_document", document, document_key),
          keyed("attention_alibi_causal", alibi, heads_key),
          single("attention_softcap_causal", softcap<scores::Tanh::exact>),
          single("attention_softcap_approx_causal", softcap<scores::Tanh::approximate>),
          keyed("attention_t5_causal", t5, table_key),
          keyed("attention_distances_causal", distances, table_key),
          keyed("attention_table", table, table_key),
          table_layers(),
          keyed("attention_blocks", tiles, number_key),
          keyed("attention_splits", splits, number_key),
          keyed("attention_bias", full_bias, table_key),
          backward("attention_full_backward", unmasked, number_key),
          backward("attention_causal_backward", below_diagonal, number_key),
          backward("attention_window_backward", window, number_key),
          backward("attention_prefix_backward", prefix, number_key),
          backward("attention_document_backward", document, document_key),
          backward("attention_alibi_causal_backward", alibi, heads_key),
          backward("attention_softcap_causal_backward", softcap<scores::Tanh::exact>, number_key),
          backward("attention_bias_backward", full_bias, table_key, true),
          backward("attention_distances_causal_backward", distances, table_key, true),
          varlen("attention_varlen", {}),
          varlen("attention_varlen_causal", {.mask = masks::causal()})};
}

}  // namespace tegula::bench
