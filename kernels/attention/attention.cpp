// Attention as a callable: which kernels a call takes.
#include "tegula/kernels/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>

#include "kernels/attention/arguments.h"
#include "kernels/attention/block_sizes.h"
#include "kernels/attention/forward_kernel.h"
#include "kernels/attention/spec_facts.h"
#include "kernels/refuse.h"
#include "tegula/quotients.h"
#include "tegula/scratch.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

/// A kernel, and the one that computes again what it leaves in doubt.
template <class T>
struct Rounds {
  ForwardKernel<T> first, second;

  Rounds with(const Tuning& tuning) const { return {first.with(tuning), second.with(tuning)}; }
};

/// Of SharedSoftmaxes.
struct SharedTensors {
  Tensor outs, facts;
};

/// Rows are padded so that the kernel is the same for all numbers of rows and clusters, which
/// strides are products of.
constexpr std::int64_t kRowsOfStride = 16;

SharedTensors shared_tensors(const Stream& stream, const AttentionCall& c, std::int64_t clusters) {
  const std::int64_t tiles = c.Q.size(0) * c.Q.size(1),
                     rows = ceil_div(c.Q.size(2), kRowsOfStride) * kRowsOfStride;
  const Dims outs{tiles, clusters, rows, c.V.size(3)}, facts{tiles, clusters, 2, rows};
  Scratch scratch(stream, c.Q.device(),
                  Scratch::bytes_of(outs, DType::f32) + Scratch::bytes_of(facts, DType::f32));
  return {scratch.take(outs, DType::f32), scratch.take(facts, DType::f32)};
}

/// The kernels of one element type: `few` for fewer rows than half a tile, `split` where programs
/// share their keys, `wide` for many keys, `tall` for many rows, `boxed` for scores of tensors that
/// TMA brings, `many` for what is left.
template <class T>
struct KernelsOf {
  explicit KernelsOf(std::shared_ptr<const SpecFacts> of)
      : facts(std::move(of)),
        many(with_tiles(
            {forward_kernel<T>("attention", facts), forward_kernel<T>("attention_again", facts)})),
        few(many.with({{"BM", kFewRows}})),
        wide(many.with({{"FORM", static_cast<int>(TileForm::wide)}})),
        tall(many.with({{"FORM", static_cast<int>(TileForm::tall)}})),
        boxed(many.with({{"FORM", static_cast<int>(TileForm::boxed)}})),
        latest(&many.first) {
    for (const int n : kKeyClusters)
      if (n > 1) split.emplace(n, few.with({{"SPLITS", n}}));
  }

  Rounds<T> with_tiles(const Rounds<T>& kernels) const {
    const auto tiles = facts->given_tiles();
    if (!tiles) return kernels;
    return {kernels.first.with({{"BM", tiles->queries}, {"BN", tiles->keys}}),
            kernels.second.with({{"BM", tiles->queries}})};
  }

  const Rounds<T>& kernels_for(const AttentionCall& c) const {
    if (SpecFacts::has_few_rows(c)) return few;
    if (facts->given_tiles()) return many;
    switch (facts->form(c)) {
      case TileForm::tall:
        return tall;
      case TileForm::wide:
        return wide;
      case TileForm::boxed:
        return boxed;
      case TileForm::usual:
        break;
    }
    return many;
  }

  void operator()(const Stream& stream, const AttentionCall& c, float scale,
                  const ListArgs& lists) const {
    const KeySplits splits = facts->key_splits(c);
    const Rounds<T>& kernels = splits.all() > 1 ? split.at(splits.programs) : kernels_for(c);
    SharedTensors shared;
    const auto run = [&](const ForwardKernel<T>& kernel, Round round,
                         detail::HostPointer<u32> marks, int programs) {
      // An argument for each member of the kernel's structs.
      kernel(stream, c.Q, c.K, c.V, c.O, c.extras.lse, scale, c.packs_heads, c.K.size(2) == 0,
             c.q_length, c.lengths.q, c.lengths.kv, c.extras.sinks, c.extras.row_max, lists.blocks,
             lists.counts, lists.full, round, marks, programs, lists.order, shared.outs,
             shared.facts);
    };
    latest = &kernels.first;
    if (splits.clusters > 1) {
      shared = shared_tensors(stream, c, splits.clusters);
      const Tensor arrivals = Scratch::counters(stream, splits.programs * shared.outs.size(0));
      return run(kernels.first, Round::only, arrivals, static_cast<int>(splits.clusters));
    }
    if (splits.all() > 1 || !facts->may_leave_doubts(c))
      return run(kernels.first, Round::only, nullptr, 0);
    const auto lock = Scratch::lock(stream);
    const Tensor marks = Scratch::marks(stream);
    run(kernels.first, Round::first, marks, 0);
    run(kernels.second, Round::second, marks, facts->programs(c));
  }

  std::shared_ptr<const SpecFacts> facts;
  Rounds<T> many, few, wide, tall, boxed;
  std::map<int, Rounds<T>> split;
  mutable std::atomic<const ForwardKernel<T>*> latest;
};

void check_tiles(const AttentionTiles& t) {
  const auto is_in = [](std::initializer_list<int> list, int n) {
    return std::ranges::find(list, n) != list.end();
  };
  if (!is_in(kQueryTiles, t.queries) || !is_in(kKeyTiles, t.keys))
    refuse_call(Mistake::attention_tiles, t.queries, t.keys);
}

void check_schedule(const AttentionSchedule& schedule) {
  if (schedule.tiles) check_tiles(*schedule.tiles);
  const int splits = schedule.key_splits.value_or(1);
  if (splits != 1 && (splits < 2 || splits > kMostKeySplits || splits % 2 != 0))
    refuse_call(Mistake::key_splits, splits, +kMostKeySplits);
}

void check_spec(const AttentionSpec& spec) {
  if (!spec.blocks) return;
  if (spec.weighting == Weighting::stick_breaking) refuse_call(Mistake::stick_breaking_blocks);
  if (spec.range || spec.full) refuse_call(Mistake::blocks_and_range);
  check_blocks(*spec.blocks);
}

/// Tensors that have a meaning for softmax alone.
void check_extras(Weighting weighting, const AttentionExtras& x) {
  if (weighting == Weighting::softmax) return;
  if (x.sinks.defined() || x.row_max.defined())
    refuse_call(Mistake::without_softmax, x.sinks.defined() ? "sinks" : "row_max");
  if (weighting == Weighting::scores && x.lse.defined()) refuse_call(Mistake::lse_of_scores);
}

}  // namespace

KvRange causal_range(const Tile&, const Tile& last, const Tile& kv_length) {
  return {full<i32>(0), min(last + 1, kv_length)};
}
KvRange causal_full(const Tile& first, const Tile&, const Tile&) {
  return {full<i32>(0), first + 1};
}

struct Attention::Kernels {
  explicit Kernels(std::shared_ptr<const SpecFacts> of)
      : facts(std::move(of)), of_bf16(facts), of_f16(facts) {}

  const AttentionSpec& spec() const { return facts->spec; }

  void run(const Stream& stream, const AttentionCall& call) const {
    const float scale = spec().scale.value_or(1.0f / std::sqrt(static_cast<float>(call.Q.size(3))));
    if (!(scale > 0)) refuse_call(Mistake::attention_scale, scale);
    const StreamScope one_call;
    ListArgs lists_of_call;
    if (facts->way.is_listed()) lists_of_call = facts->lists(stream, call, facts->tiles(call));
    if (call.Q.dtype() == DType::f16)
      of_f16(stream, call, scale, lists_of_call);
    else
      of_bf16(stream, call, scale, lists_of_call);
  }

  std::shared_ptr<const SpecFacts> facts;
  KernelsOf<bf16> of_bf16;
  KernelsOf<f16> of_f16;
};

Attention::Attention(AttentionSpec spec, AttentionSchedule schedule, AttentionNumerics numerics,
                     Loc at) {
  const detail::CallPlace here(at);
  check_schedule(schedule);
  check_spec(spec);
  kernels_ =
      std::make_shared<const Kernels>(std::make_shared<const SpecFacts>(spec, schedule, numerics));
}

void Attention::operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O, const AttentionExtras& extras, Loc at) const {
  const detail::CallPlace here(at);
  const AttentionSpec& spec = kernels_->spec();
  check_extras(spec.weighting, extras);
  AttentionCall call = dense_call(Q, K, V, O, extras);
  if (spec.queries_at_end) require_keys_for_queries(Q, K);
  if (!spec.blocks) call = with_heads_packed(std::move(call), kernels_->facts->schedule.pack_heads);
  kernels_->run(stream, call);
}

void Attention::operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O, const Tensor& Lse, Loc at) const {
  (*this)(stream, Q, K, V, O, AttentionExtras{.lse = Lse}, at);
}

void Attention::operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O, Loc at) const {
  (*this)(stream, Q, K, V, O, AttentionExtras{}, at);
}

void Attention::operator()(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O,
                           Loc at) const {
  (*this)(Stream(Q.device()), Q, K, V, O, at);
}

void Attention::varlen(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                       const Tensor& O, const CuSeqlens& lengths, const AttentionExtras& extras,
                       Loc at) const {
  const detail::CallPlace here(at);
  check_extras(kernels_->spec().weighting, extras);
  const AttentionCall call = varlen_call(Q, K, V, O, lengths, extras);
  if (lengths.q.size(0) > 1 && Q.size(0) > 0) kernels_->run(stream, call);
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
