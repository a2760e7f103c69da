// Masks and score functions of attention: tensors are Q, K, V, O and Lse, then what the case names.
#include "bench/attention_cases.h"

#include <map>
#include <tuple>

#include "tegula/kernels/attention.h"
#include "tegula/kernels/masks.h"
#include "tegula/kernels/scores.h"

namespace tegula::bench {
namespace {

using Tensors = std::span<const Tensor>;

void run(const Attention& a, const Stream& s, Tensors t) { a(s, t[0], t[1], t[2], t[3], t[4]); }

/// One attention for each key; those of later calls reuse what was compiled.
template <class Key, class Make>
const Attention& made_once(std::map<Key, Attention>& made, const Key& key, const Make& make) {
  const auto at = made.find(key);
  return at != made.end() ? at->second : made.emplace(key, Attention(make())).first->second;
}

void window(const Stream& s, Tensors t, double length) {
  static Scalar<i32> now;
  static const Attention attention({.mask = masks::sliding_window(now)});
  now.set(static_cast<i32>(length));
  run(attention, s, t);
}

void prefix(const Stream& s, Tensors t, double length) {
  static Scalar<i32> now;
  static const Attention attention({.mask = masks::prefix_lm(now)});
  now.set(static_cast<i32>(length));
  run(attention, s, t);
}

/// Further tensors: the document of each position, the first position of each document (i32).
void document(const Stream& s, Tensors t, double) {
  // Freed memory comes again with other extents.
  static std::map<std::tuple<void*, void*, std::int64_t, std::int64_t>, Attention> made;
  run(made_once(made, {t[5].data(), t[6].data(), t[5].size(0), t[6].size(0)},
                [&] { return AttentionSpec{.mask = masks::packed_causal(t[5], t[6])}; }),
      s, t);
}

void alibi(const Stream& s, Tensors t, double) {
  static std::map<int, Attention> made;
  const auto heads = static_cast<int>(t[0].size(1));
  run(made_once(
          made, heads,
          [&] { return AttentionSpec{.mask = masks::causal(), .score = scores::alibi(heads)}; }),
      s, t);
}

template <scores::Tanh kind>
void softcap(const Stream& s, Tensors t, double cap) {
  static Scalar<f32> now = 1.0f;
  static const Attention attention({.mask = masks::causal(), .score = scores::softcap(now, kind)});
  now.set(static_cast<float>(cap));
  run(attention, s, t);
}

/// With given tiles: number = queries * 1'000'000 + keys * 100 + causal (1) or not (0).
void tiles(const Stream& s, Tensors t, double number) {
  static std::map<std::int64_t, Attention> made;
  const auto key = static_cast<std::int64_t>(number);
  run(made_once(made, key,
                [&] {
                  AttentionSpec spec{.mask = key % 100 == 1 ? masks::causal() : Mask()};
                  spec.tiles = {static_cast<int>(key / 1'000'000),
                                static_cast<int>(key / 100 % 10'000)};
                  return spec;
                }),
      s, t);
}

}  // namespace

std::vector<Case> attention_cases() {
  return {{"attention_window", window},
          {"attention_prefix", prefix},
          {"attention_document", document},
          {"attention_alibi_causal", alibi},
          {"attention_softcap_causal", softcap<scores::Tanh::exact>},
          {"attention_softcap_approx_causal", softcap<scores::Tanh::approximate>},
          {"attention_blocks", tiles}};
}

}  // namespace tegula::bench
