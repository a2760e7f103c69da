// The callable `Attention`: selects and launches the kernels of a call.
#include "tegula/kernels/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>

#include "kernels/argument_error.h"
#include "kernels/attention/arguments.h"
#include "kernels/attention/backward.h"
#include "kernels/attention/cache_arguments.h"
#include "kernels/attention/forward_kernel.h"
#include "kernels/attention/heuristics.h"
#include "kernels/attention/released_pages.h"
#include "kernels/attention/table_reads.h"
#include "kernels/attention/work_list.h"
#include "kernels/attention/work_list_check.h"
#include "tegula/attention_tiles.h"
#include "tegula/configured_kernel.h"
#include "tegula/int_math.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

/// Slots of the split-KV workspace: partial accumulators and row statistics.
struct SplitKvSlots {
  PlanSlot acc_partials, row_stats;
};

namespace {

/// Keys per kv block of the recompute pass: few, since its speed matters little.
constexpr int kKeysAgain = 64;

/// Rows are padded to a multiple of this, so that strides, which are products of rows and clusters,
/// keep their divisibility and one kernel serves all numbers of rows and clusters.
constexpr std::int64_t kRowsOfStride = 16;

/// Returns the workspace of `tiles` tiles that so many clusters, or parts, share. A tile has at
/// most `block_q` rows.
SplitKvSlots split_kv_slots(PlanBuilder& plan, const AttentionCall& c, int block_q,
                            std::int64_t tiles, std::int64_t clusters) {
  const std::int64_t of_tile = std::min<std::int64_t>(c.rows(), block_q),
                     rows = ceil_div(of_tile, kRowsOfStride) * kRowsOfStride;
  return {plan.scratch({tiles, clusters, rows, c.V.size(3)}, DType::f32),
          plan.scratch({tiles, clusters, 2, rows}, DType::f32)};
}

}  // namespace

/// Kernels of one element type: one per configuration, and the recompute kernels for tiles that the
/// speculative pass flags.
template <class T>
struct AttentionKernels {
  explicit AttentionKernels(std::shared_ptr<const AttentionHeuristics> of)
      : heuristics(std::move(of)),
        unspecialized(forward_kernel<T>("attention", heuristics, {}).shared_instance()),
        last_used(unspecialized.get()) {}

  void build(PlanBuilder& plan, const AttentionCall& c, const AttentionSlots& slots, float scale,
             const SplitKv& splits, const AttentionConfig& config,
             const BlockListSlots& lists) const {
    SplitKvSlots shared;
    const auto launch = [&](const ForwardKernel<T>& kernel, SoftmaxPass pass, PlanSlot flags,
                            int programs) {
      // One argument per member of the kernel's structs.
      plan.launch(kernel, slots.Q, slots.K, slots.V, slots.O, slots.lse, scale, c.pack_gqa,
                  c.K.numel() == 0, c.seqlen_q, slots.cu_q, slots.cu_kv, slots.kv_lengths,
                  slots.table, slots.work, slots.sinks, slots.row_max, lists.blocks, lists.counts,
                  lists.full, pass, flags, programs, lists.order, shared.acc_partials,
                  shared.row_stats);
    };
    const ForwardKernel<T> kernel =
        kernel_of(main, c.is_of_few() ? "attention_few" : "attention",
                  tiles_of(c, splits, config, plan.tensor(lists.order).defined()));
    dsl::KernelInstance* const instance = kernel.shared_instance().get();
    if (!c.is_of_few()) last_used = instance;
    last_of_few = c.is_of_few() ? instance : nullptr;
    if (const auto work = heuristics->listed_work(c)) {
      shared = split_kv_slots(plan, c, config.block_q, work->tiles, work->slots);
      return launch(kernel, SoftmaxPass::exact, plan.counters(work->tiles * work->slots), 0);
    }
    if (splits.clusters > 1) {
      const std::int64_t tiles = c.Q.size(0) * c.Q.size(1);
      shared = split_kv_slots(plan, c, config.block_q, tiles, splits.clusters);
      return launch(kernel, SoftmaxPass::exact, plan.counters(splits.cluster_ctas * tiles),
                    static_cast<int>(splits.clusters));
    }
    if (!config.is_speculative) return launch(kernel, SoftmaxPass::exact, {}, 0);
    const PlanSlot flags = plan.fallback_flags();
    launch(kernel, SoftmaxPass::speculative, flags, 0);
    const TileRequirements needs =
        heuristics->needs(padded_head_dim(c.Q.size(3)), padded_head_dim(c.V.size(3)), c.pack_gqa);
    const int keys = std::min(kKeysAgain, attention_tiles(needs).block_kv);
    launch(kernel_of(recompute, "attention_recompute", {config.block_q, keys}),
           SoftmaxPass::recompute, flags, heuristics->programs(c));
  }

  using Instances = tegula::detail::ConfiguredInstances<ForwardTiles>;

  ForwardKernel<T> kernel_of(Instances& made, const char* name, const ForwardTiles& tiles) const {
    return ForwardKernel<T>(made.of(
        tiles, [&] { return forward_kernel<T>(name, heuristics, tiles).shared_instance(); }));
  }
  ForwardTiles tiles_of(const AttentionCall& c, const SplitKv& splits,
                        const AttentionConfig& config, bool has_order) const {
    const AttentionSpec& spec = heuristics->spec;
    const bool is_masked = spec.mask || spec.kv_range || spec.blocks,
               is_varlen = c.lengths.q.defined();
    return {.block_q = config.block_q,
            .block_kv = config.block_kv,
            .cluster_ctas = splits.all() > 1 ? splits.cluster_ctas : 1,
            .keys_in_m = heuristics->rows_in_n(c).has_value(),
            .paired_stages = heuristics->paired_stages(c),
            .few_queries = c.few_queries,
            .multicast = !is_masked && !has_order && !is_varlen && splits.all() == 1,
            .tma_aux_loads = spec.score && heuristics->schedule.tma_aux_loads};
  }

  std::shared_ptr<const AttentionHeuristics> heuristics;
  mutable Instances main, recompute;
  std::shared_ptr<dsl::KernelInstance> unspecialized;
  mutable std::atomic<dsl::KernelInstance*> last_used;
  /// The second kernel of the call that was planned last, if that is a mixed step.
  mutable std::atomic<dsl::KernelInstance*> last_of_few = nullptr;
};

namespace {

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
  if (spec.scale && !(*spec.scale > 0 && std::isfinite(*spec.scale)))
    throw_argument_error(ErrorId::attention_scale, *spec.scale);
  if (!spec.blocks) return;
  if (spec.weighting == AttentionNormalization::stick_breaking)
    throw_argument_error(ErrorId::stick_breaking_blocks);
  if (spec.kv_range || spec.full_kv_range) throw_argument_error(ErrorId::blocks_and_range);
  check_blocks(*spec.blocks);
}

/// Arguments of a call, including tensors that the caller leaves undefined.
enum Argument : std::uint8_t {
  kQ,
  kK,
  kV,
  kO,
  kLse,
  kRowMax,
  kSinks,
  kCuQ,
  kCuKv,
  kKvLengths,
  kTable,
  kWork,
  kBlocks,
  kCounts,
  kFull
};

auto arguments(const Tensor& Q, const KvCache& kv, const Tensor& O, const AttentionExtras& x,
               const CuSeqlens& lengths, const KvBatch& batch, const BlockList& list) {
  return tensor_args(Q, kv.k, kv.v, O, x.lse, x.row_max, x.sinks, lengths.q, lengths.kv,
                     batch.kv_lengths, kv.table, batch.schedule, list.kv_indices,
                     list.kv_num_blocks, list.full_kv_num_blocks);
}

/// Layouts of a call's tensors.
enum class CallKind : std::uint8_t { dense, varlen, paged, scheduled };

PlanOptions plan_options(CallKind kind, std::int64_t max_seqlen_q) {
  return {static_cast<std::int64_t>(kind), max_seqlen_q};
}

/// Returns the arguments as plan slots in the layout of `c`, which the kernel reads.
AttentionSlots slots_of(PlanBuilder& plan, const AttentionCall& c) {
  const auto viewed = [&](Argument a, const std::function<Tensor(const Tensor&)>& as) {
    const PlanSlot slot = plan.argument(a);
    return plan.tensor(slot).defined() ? plan.view(slot, as) : slot;
  };
  const auto by_kv_head = [&](Argument a) {
    if (c.is_paged) return viewed(a, as_pages);
    return c.lengths.q.defined() ? viewed(a, as_batch) : plan.argument(a);
  };
  const auto by_query_head = [&](Argument a) {
    const std::int64_t heads = c.K.size(1);
    if (c.pack_gqa)
      return viewed(a, [heads, by_query = c.packs_queries()](const Tensor& t) {
        return by_query ? as_groups(t, heads) : *grouped(t, heads);
      });
    return c.lengths.q.defined() ? viewed(a, as_batch) : plan.argument(a);
  };
  return {by_query_head(kQ),
          by_kv_head(kK),
          by_kv_head(kV),
          by_query_head(kO),
          by_query_head(kLse),
          by_query_head(kRowMax),
          plan.argument(kSinks),
          plan.argument(kCuQ),
          plan.argument(kCuKv),
          plan.argument(kKvLengths),
          plan.argument(kTable),
          {},
          {plan.argument(kBlocks), plan.argument(kCounts), plan.argument(kFull), {}}};
}

void check_schedule(const KvBatch& batch) {
  const Tensor &t = batch.schedule, &lengths = batch.kv_lengths;
  const bool fits = t.defined() && t.dtype() == DType::i32 && t.rank() == 1 && t.is_contiguous() &&
                    t.device() == lengths.device() &&
                    t.size(0) >= schedule_words(lengths.size(0), t.device());
  if (!fits)
    throw_argument_error(ErrorId::kernel_argument, "attention", "schedule",
                         t.defined() ? t.str() : "undefined",
                         "a contiguous i32 tensor of schedule_words(requests, device) elements");
}

/// Rejects tensors that have a meaning for softmax only.
void check_weighting_extras(AttentionNormalization weighting, const AttentionExtras& x) {
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
      : heuristics(std::move(of)),
        of_bf16(heuristics),
        of_f16(heuristics),
        tables(heuristics),
        work_lists(heuristics->traversal) {}

  const AttentionSpec& spec() const { return heuristics->spec; }

  void call(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
            const Tensor& O, const AttentionExtras& extras, const CuSeqlens& lengths,
            CallKind kind) const {
    static const BlockList kNone;
    const BlockList& list = spec().blocks ? *spec().blocks : kNone;
    tables.check(Q, K, lengths);
    plans.call(stream, arguments(Q, {K, V}, O, extras, lengths, {}, list),
               plan_options(kind, lengths.max_seqlen_q), [&](PlanBuilder& plan) {
                 check_weighting_extras(spec().weighting, extras);
                 kind == CallKind::varlen
                     ? build_varlen(plan, varlen_call(Q, K, V, O, lengths, extras))
                     : build_dense(plan, dense_call(Q, K, V, O, extras));
               });
  }

  void call_paged(const Stream& stream, const Tensor& Q, const KvCache& cache, const Tensor& O,
                  const KvBatch& batch, const AttentionExtras& extras) const {
    plans.call(stream, arguments(Q, cache, O, extras, {batch.q_offsets, {}}, batch, {}),
               plan_options(CallKind::paged, batch.max_seqlen_q), [&](PlanBuilder& plan) {
                 check_weighting_extras(spec().weighting, extras);
                 if (spec().blocks)
                   throw_argument_error(ErrorId::paged_spec, "`blocks`",
                                        "leave `blocks` out: paged calls visit ranges of keys");
                 AttentionCall call =
                     paged_call(Q, cache, O, batch, extras, heuristics->schedule.pack_gqa);
                 tables.check_paged(batch.kv_lengths.size(0), Q.size(1));
                 if (batch.schedule.defined()) check_schedule(batch);
                 if (batch.kv_lengths.size(0) == 0 || Q.size(0) == 0) return;
                 const auto few = few_queries_call(call, Q, cache, O, batch, extras);
                 if (few) call.few_queries = few->few_queries;
                 build(plan, call);
                 if (few) build(plan, *few);
               });
  }

  void schedule(const Stream& stream, const Tensor& Q, const KvCache& cache, const KvBatch& batch,
                const Tensor& list) const {
    const KvBatch into{batch.q_offsets, batch.kv_lengths, batch.max_seqlen_q, list};
    plans.call(stream, arguments(Q, cache, {}, {}, {batch.q_offsets, {}}, into, {}),
               plan_options(CallKind::scheduled, batch.max_seqlen_q), [&](PlanBuilder& plan) {
                 check_cache("schedule", cache, batch);
                 check_schedule(into);
                 require_rank("schedule", "Q", Q, 3);
                 const Dims rows{Q.size(0), Q.size(1), cache.v.size(3)};
                 const Tensor O = Tensor::borrow(Q.data(), rows, Q.dtype(), Q.device());
                 const AttentionCall call =
                     paged_call(Q, cache, O, into, {}, heuristics->schedule.pack_gqa);
                 const AttentionCall listed =
                     few_queries_call(call, Q, cache, O, into, {}).value_or(call);
                 const auto work = heuristics->listed_work(listed);
                 if (!work || batch.kv_lengths.size(0) == 0) return;
                 write_work(plan, listed, *work, work_of(plan, *work));
               });
  }
  /// Returns the call for the requests with few queries of a mixed step, or nothing if the step has
  /// no list or does not use it. `call` is that for all requests.
  std::optional<AttentionCall> few_queries_call(const AttentionCall& call, const Tensor& Q,
                                                const KvCache& cache, const Tensor& O,
                                                KvBatch batch,
                                                const AttentionExtras& extras) const {
    if (!call.is_scheduled || call.pack_gqa || heuristics->schedule.pack_gqa == false)
      return std::nullopt;
    batch.max_seqlen_q = heuristics->few_queries(call);
    AttentionCall few = paged_call(Q, cache, O, batch, extras, true);
    few.few_queries = static_cast<int>(batch.max_seqlen_q);
    return heuristics->listed_work(few) ? std::optional(few) : std::nullopt;
  }
  /// Returns the caller's schedule as a list.
  static PlanSlot work_of(PlanBuilder& plan, const WorkExtents& extents) {
    return plan.view(plan.argument(kWork), [items = extents.items](const Tensor& t) {
      return Tensor::borrow(t.data(), {items, WorkItem::kWords}, DType::i32, t.device());
    });
  }
  void write_work(PlanBuilder& plan, const AttentionCall& call, const WorkExtents& extents,
                  PlanSlot list) const {
    const WorkListForm form{.block_kv = heuristics->config(call).block_kv,
                            .has_kv_offsets = !call.is_paged,
                            .queries_are_last = call.is_paged || spec().align_bottom_right};
    work_lists.write(plan, form, plan.argument(kCuQ),
                     plan.argument(call.is_paged ? kKvLengths : kCuKv),
                     {call.seqlen_kv(), call.max_listed_queries()}, extents.at_once, list);
  }

  void build_dense(PlanBuilder& plan, AttentionCall call) const {
    if (spec().align_bottom_right) require_keys_for_queries(call.Q, call.K);
    tables.add_checks(plan, call, {}, {});
    if (!spec().blocks) call = with_packed_gqa(std::move(call), heuristics->schedule.pack_gqa);
    build(plan, call);
  }
  void build_varlen(PlanBuilder& plan, const AttentionCall& call) const {
    if (call.lengths.q.size(0) <= 1 || call.Q.size(2) == 0) return;
    tables.add_checks(plan, call, plan.argument(kCuQ), plan.argument(kCuKv));
    build(plan, with_packed_queries(call, heuristics->packs_sequences()));
  }
  void build(PlanBuilder& plan, const AttentionCall& call) const {
    const float scale = spec().scale.value_or(1.0f / std::sqrt(static_cast<float>(call.Q.size(3))));
    AttentionSlots slots = slots_of(plan, call);
    if (const auto work = heuristics->listed_work(call)) {
      slots.work = call.is_paged ? work_of(plan, *work)
                                 : plan.scratch({work->items, WorkItem::kWords}, DType::i32);
      if (!call.is_paged)
        write_work(plan, call, *work, slots.work);
      else if (call.Q.device().on_host())
        list_check.add(plan, slots.work, slots.cu_q, call.max_listed_queries(), *work);
    }
    const SplitKv splits = heuristics->split_kv(call);
    const AttentionConfig config = heuristics->config(call, splits.all() > 1);
    BlockListSlots lists;
    const bool uses_list = heuristics->uses_block_list(call);
    evaluates_mask = uses_list && heuristics->traversal.evaluable();
    if (uses_list) lists = heuristics->lists(plan, slots, call, config);
    if (call.Q.dtype() == DType::f16)
      of_f16.build(plan, call, slots, scale, splits, config, lists);
    else
      of_bf16.build(plan, call, slots, scale, splits, config, lists);
  }

  /// Returns the mask for lists that the caller keeps, which are made by evaluating it.
  const BlockMask& listed_mask() const {
    const AttentionSpec& s = spec();
    if (s.weighting == AttentionNormalization::stick_breaking)
      throw_argument_error(ErrorId::stick_breaking_blocks);
    if (s.kv_range || s.full_kv_range) throw_argument_error(ErrorId::blocks_and_range);
    std::call_once(makes_listed, [&] {
      listed.emplace([mask = s.mask](const Tile& b, const Tile& h, const Tile& q, const Tile& kv) {
        return mask ? checked_mask(mask(b, h, q, kv)) : Tile(true);
      });
    });
    return *listed;
  }

  BlockList new_list(const Tensor& Q, const Tensor& K, BlockListRows of) const {
    const MaskDependence& mask = listed_mask().dependence();
    const AttentionCall call = dense_call(Q, K, K, Q, {});
    const AttentionTileShape tiles = of == BlockListRows::keys
                                         ? AttentionTileShape{kGradientRows, kGradientKeys}
                                         : heuristics->list_tiles(call);
    BlockList list{{}, {}, {}, tiles.block_q, tiles.block_kv};
    const std::int64_t queries = ceil_div(Q.size(2), tiles.block_q),
                       keys = ceil_div(K.size(2), tiles.block_kv);
    const bool of_keys = of == BlockListRows::keys;
    const Dims rows{mask.on_batch ? Q.size(0) : 1, mask.on_head ? Q.size(1) : 1,
                    of_keys ? keys : queries};
    // Calls with other lengths read strides of the same divisibility.
    const std::int64_t capacity = round_up(std::max<std::int64_t>(of_keys ? queries : keys, 1), 16);
    const auto empty = [&](const Dims& shape) {
      return Tensor::empty(shape, DType::i32, Q.device());
    };
    list.kv_indices = empty({rows[0], rows[1], rows[2], capacity});
    list.kv_num_blocks = empty(rows), list.full_kv_num_blocks = empty(rows);
    return list;
  }

  void write_list(const Stream& stream, const Tensor& Q, const Tensor& K, const BlockList& list,
                  BlockListRows of) const {
    const BlockMask& mask = listed_mask();
    const bool of_keys = of == BlockListRows::keys;
    tables.check(Q, K, {});
    enum : std::uint8_t { kListQ, kListK, kIndices, kNumbers, kFullNumbers };
    list_plans.call(
        stream, tensor_args(Q, K, list.kv_indices, list.kv_num_blocks, list.full_kv_num_blocks),
        PlanOptions{of_keys, list.block_q, list.block_kv}, [&](PlanBuilder& plan) {
          const AttentionCall call = dense_call(Q, K, K, Q, {});
          if (spec().align_bottom_right) require_keys_for_queries(Q, K);
          check_blocks(list);
          const std::int64_t queries = ceil_div(Q.size(2), list.block_q),
                             keys = ceil_div(K.size(2), list.block_kv);
          check_written(list, {Q, {Q.size(0), Q.size(1), of_keys ? keys : queries}},
                        mask.dependence(), of_keys ? queries : keys);
          if (list.kv_num_blocks.numel() == 0) return;
          tables.add_checks(plan, call, {}, {});
          mask.evaluate(
              plan, Q, K, {list.block_q, list.block_kv}, spec().align_bottom_right, of_keys,
              {plan.argument(kIndices), plan.argument(kNumbers), plan.argument(kFullNumbers), {}});
        });
  }

  dsl::KernelInstance* last_used(DType dtype) const {
    return dtype == DType::f16 ? of_f16.last_used.load() : of_bf16.last_used.load();
  }
  /// Returns null unless the last call was a mixed step.
  dsl::KernelInstance* last_of_few(DType dtype) const {
    return dtype == DType::f16 ? of_f16.last_of_few.load() : of_bf16.last_of_few.load();
  }

  std::shared_ptr<const AttentionHeuristics> heuristics;
  AttentionKernels<bf16> of_bf16;
  AttentionKernels<f16> of_f16;
  AttentionTables tables;
  WorkLists work_lists;
  WorkListCheck list_check;

  /// Returns the backward pass, which the first call of it makes.
  const AttentionBackward& backward() const {
    std::call_once(backward_once, [&] {
      backward_pass.emplace(heuristics);
      made_backward = &*backward_pass;
    });
    return *backward_pass;
  }
  mutable std::once_flag backward_once;
  mutable std::optional<AttentionBackward> backward_pass;
  mutable std::atomic<const AttentionBackward*> made_backward = nullptr;
  CallPlans plans{StrideKey::exact};  ///< whether heads are packed depends on exact strides
  CallPlans list_plans;
  mutable std::once_flag makes_listed;
  mutable std::optional<BlockMask> listed;
  mutable std::atomic<bool> evaluates_mask = false;  ///< in the plan that was built last
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
  kernels_->call(stream, Q, K, V, O, extras, {}, CallKind::dense);
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
  kernels_->call(stream, Q, K, V, O, extras, lengths, CallKind::varlen);
}

void Attention::paged(const Stream& stream, const Tensor& Q, const KvCache& cache, const Tensor& O,
                      const KvBatch& batch, const AttentionExtras& extras, Loc at) const {
  const detail::CallPlace here(at);
  try {
    kernels_->call_paged(stream, Q, cache, O, batch, extras);
  } catch (const ReleasedRead& e) {
    throw_released_page(e, cache, batch);
  }
}

void Attention::schedule(const Stream& stream, const Tensor& Q, const KvCache& cache,
                         const KvBatch& batch, const Tensor& schedule, Loc at) const {
  const detail::CallPlace here(at);
  kernels_->schedule(stream, Q, cache, batch, schedule);
}

void Attention::backward(const Stream& stream, const Tensor& Q, const Tensor& K, const Tensor& V,
                         const AttentionSaved& saved, const AttentionGradients& of,
                         const AttentionInputGradients& into, Loc at) const {
  const detail::CallPlace here(at);
  kernels_->tables.check(Q, K, {});
  kernels_->backward().call(stream, Q, K, V, saved, of, into, nullptr);
}

void Attention::varlen_backward(const Stream& stream, const Tensor& Q, const Tensor& K,
                                const Tensor& V, const CuSeqlens& lengths,
                                const AttentionSaved& saved, const AttentionGradients& of,
                                const AttentionInputGradients& into, Loc at) const {
  const detail::CallPlace here(at);
  kernels_->tables.check(Q, K, lengths);
  kernels_->backward().call(stream, Q, K, V, saved, of, into, &lengths);
}

BlockList Attention::block_list(const Stream& stream, const Tensor& Q, const Tensor& K,
                                BlockListRows rows, Loc at) const {
  const detail::CallPlace here(at);
  const BlockList list = kernels_->new_list(Q, K, rows);
  kernels_->write_list(stream, Q, K, list, rows);
  return list;
}

void Attention::write_block_list(const Stream& stream, const Tensor& Q, const Tensor& K,
                                 const BlockList& list, BlockListRows rows, Loc at) const {
  const detail::CallPlace here(at);
  kernels_->write_list(stream, Q, K, list, rows);
}

std::string Attention::explain(DType dtype, Loc at) const {
  const detail::CallPlace here(at);
  std::string kernel = tegula::detail::explain(*kernels_->last_used(dtype));
  if (dsl::KernelInstance* const few = kernels_->last_of_few(dtype))
    kernel += tegula::detail::explain(*few);
  const KvTraversal& traversal = kernels_->heuristics->traversal;
  const char* made =
      kernels_->evaluates_mask ? "a block list made by evaluating the mask, else " : "";
  const AttentionBackward* backward = kernels_->made_backward;
  return kernel + "keys visited: " + made + traversal.text() + "\n" + traversal.explain() +
         (backward ? backward->explain(dtype) : "");
}
std::string Attention::dump(std::string_view verb, DType dtype, Loc at) const {
  const detail::CallPlace here(at);
  return tegula::detail::dump(*kernels_->last_used(dtype), verb);
}

}  // namespace tegula::kernels
