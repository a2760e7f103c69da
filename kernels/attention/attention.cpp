// Attention as a callable: which kernels a call takes.
#include "tegula/kernels/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>

#include "kernels/argument_error.h"
#include "kernels/attention/arguments.h"
#include "kernels/attention/forward_kernel.h"
#include "kernels/attention/heuristics.h"
#include "kernels/attention/tile_shapes.h"
#include "tegula/int_math.h"
#include "tegula/scratch.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

/// A kernel, and the one that computes again what it leaves in doubt.
template <class T>
struct KernelPair {
  ForwardKernel<T> main, recompute;

  KernelPair with(const Tuning& tuning) const {
    return {main.with(tuning), recompute.with(tuning)};
  }
};

/// Workspace of split-KV: partial accumulators and row statistics.
struct SharedTensors {
  Tensor acc_partials, row_stats;
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

/// The kernels of one element type: `few` for fewer rows than half a tile, `split` for split-KV,
/// `wide` for many keys, `tall` for many rows, `boxed` for scores of tensors that TMA loads, `many`
/// for the rest.
template <class T>
struct KernelsOf {
  explicit KernelsOf(std::shared_ptr<const AttentionHeuristics> of)
      : facts(std::move(of)),
        many(with_tiles({forward_kernel<T>("attention", facts),
                         forward_kernel<T>("attention_recompute", facts)})),
        few(many.with({{"BM", kSmallQBlock}})),
        wide(many.with({{"TILE_SHAPE", static_cast<int>(TileShapeClass::large_n)}})),
        tall(many.with({{"TILE_SHAPE", static_cast<int>(TileShapeClass::three_warpgroups)}})),
        boxed(many.with({{"TILE_SHAPE", static_cast<int>(TileShapeClass::tma_bias)}})),
        latest(&many.main) {
    for (const int n : kSplitKvClusters)
      if (n > 1) split.emplace(n, few.with({{"SPLITS", n}}));
  }

  KernelPair<T> with_tiles(const KernelPair<T>& kernels) const {
    const auto tiles = facts->given_tiles();
    if (!tiles) return kernels;
    return {kernels.main.with({{"BM", tiles->block_q}, {"BN", tiles->block_kv}}),
            kernels.recompute.with({{"BM", tiles->block_q}})};
  }

  const KernelPair<T>& kernels_for(const AttentionCall& c) const {
    if (AttentionHeuristics::is_small_q(c)) return few;
    if (facts->given_tiles()) return many;
    switch (facts->form(c)) {
      case TileShapeClass::three_warpgroups:
        return tall;
      case TileShapeClass::large_n:
        return wide;
      case TileShapeClass::tma_bias:
        return boxed;
      case TileShapeClass::standard:
        break;
    }
    return many;
  }

  void operator()(const Stream& stream, const AttentionCall& c, float scale,
                  const BlockListArgs& lists) const {
    const SplitKv splits = facts->split_kv(c);
    const KernelPair<T>& kernels =
        splits.all() > 1 ? split.at(splits.cluster_ctas) : kernels_for(c);
    SharedTensors shared;
    const auto run = [&](const ForwardKernel<T>& kernel, SoftmaxPass pass,
                         detail::HostPointer<u32> flags, int programs) {
      // An argument for each member of the kernel's structs.
      kernel(stream, c.Q, c.K, c.V, c.O, c.extras.lse, scale, c.pack_gqa, c.K.size(2) == 0,
             c.seqlen_q, c.lengths.q, c.lengths.kv, c.extras.sinks, c.extras.row_max, lists.blocks,
             lists.counts, lists.full, pass, flags, programs, lists.order, shared.acc_partials,
             shared.row_stats);
    };
    latest = &kernels.main;
    if (splits.clusters > 1) {
      shared = shared_tensors(stream, c, splits.clusters);
      const Tensor arrivals =
          Scratch::counters(stream, splits.cluster_ctas * shared.acc_partials.size(0));
      return run(kernels.main, SoftmaxPass::exact, arrivals, static_cast<int>(splits.clusters));
    }
    if (splits.all() > 1 || !facts->uses_speculative_softmax(c))
      return run(kernels.main, SoftmaxPass::exact, nullptr, 0);
    const auto lock = Scratch::lock(stream);
    const Tensor flags = Scratch::fallback_flags(stream);
    run(kernels.main, SoftmaxPass::speculative, flags, 0);
    run(kernels.recompute, SoftmaxPass::recompute, flags, facts->programs(c));
  }

  std::shared_ptr<const AttentionHeuristics> facts;
  KernelPair<T> many, few, wide, tall, boxed;
  std::map<int, KernelPair<T>> split;
  mutable std::atomic<const ForwardKernel<T>*> latest;
};

void check_tiles(const AttentionTileShape& t) {
  const auto is_in = [](std::initializer_list<int> list, int n) {
    return std::ranges::find(list, n) != list.end();
  };
  if (!is_in(kQueryTiles, t.block_q) || !is_in(kKeyTiles, t.block_kv))
    throw_argument_error(ErrorId::attention_tiles, t.block_q, t.block_kv);
}

void check_schedule(const AttentionSchedule& schedule) {
  if (schedule.tiles) check_tiles(*schedule.tiles);
  const int splits = schedule.split_kv.value_or(1);
  if (splits != 1 && (splits < 2 || splits > kMaxSplitKv || splits % 2 != 0))
    throw_argument_error(ErrorId::split_kv, splits, +kMaxSplitKv);
}

void check_spec(const AttentionSpec& spec) {
  if (!spec.blocks) return;
  if (spec.weighting == AttentionNormalization::stick_breaking)
    throw_argument_error(ErrorId::stick_breaking_blocks);
  if (spec.kv_range || spec.full_kv_range) throw_argument_error(ErrorId::blocks_and_range);
  check_blocks(*spec.blocks);
}

/// Tensors that have a meaning for softmax alone.
void check_extras(AttentionNormalization weighting, const AttentionExtras& x) {
  if (weighting == AttentionNormalization::softmax) return;
  if (x.sinks.defined() || x.row_max.defined())
    throw_argument_error(ErrorId::without_softmax, x.sinks.defined() ? "sinks" : "row_max");
  if (weighting == AttentionNormalization::none && x.lse.defined())
    throw_argument_error(ErrorId::lse_of_scores);
}

}  // namespace

KvRange causal_range(const Tile&, const Tile& last, const Tile& seqlen_kv) {
  return {full<i32>(0), min(last + 1, seqlen_kv)};
}
KvRange causal_full(const Tile& first, const Tile&, const Tile&) {
  return {full<i32>(0), first + 1};
}

struct Attention::Kernels {
  explicit Kernels(std::shared_ptr<const AttentionHeuristics> of)
      : facts(std::move(of)), of_bf16(facts), of_f16(facts) {}

  const AttentionSpec& spec() const { return facts->spec; }

  void run(const Stream& stream, const AttentionCall& call) const {
    const float scale = spec().scale.value_or(1.0f / std::sqrt(static_cast<float>(call.Q.size(3))));
    if (!(scale > 0)) throw_argument_error(ErrorId::attention_scale, scale);
    const StreamScope one_call;
    BlockListArgs lists_of_call;
    if (facts->traversal.uses_block_list())
      lists_of_call = facts->lists(stream, call, facts->tiles(call));
    if (call.Q.dtype() == DType::f16)
      of_f16(stream, call, scale, lists_of_call);
    else
      of_bf16(stream, call, scale, lists_of_call);
  }

  std::shared_ptr<const AttentionHeuristics> facts;
  KernelsOf<bf16> of_bf16;
  KernelsOf<f16> of_f16;
};

Attention::Attention(AttentionSpec spec, AttentionSchedule schedule, AttentionNumerics numerics,
                     Loc at) {
  const detail::CallPlace here(at);
  check_schedule(schedule);
  check_spec(spec);
  kernels_ = std::make_shared<const Kernels>(
      std::make_shared<const AttentionHeuristics>(spec, schedule, numerics));
}

void Attention::operator()(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                           const Tensor& O, const AttentionExtras& extras, Loc at) const {
  const detail::CallPlace here(at);
  const AttentionSpec& spec = kernels_->spec();
  check_extras(spec.weighting, extras);
  AttentionCall call = dense_call(Q, K, V, O, extras);
  if (spec.align_bottom_right) require_keys_for_queries(Q, K);
  if (!spec.blocks) call = with_packed_gqa(std::move(call), kernels_->facts->schedule.pack_gqa);
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
  const KvTraversal& traversal = kernels_->facts->traversal;
  return kernel + "keys visited: " + traversal.text() + "\n" + traversal.explain();
}
std::string Attention::dump(std::string_view verb, DType dtype) const {
  return dtype == DType::f16 ? kernels_->of_f16.latest.load()->dump(verb)
                             : kernels_->of_bf16.latest.load()->dump(verb);
}

}  // namespace tegula
