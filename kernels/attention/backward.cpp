#include "kernels/attention/backward.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "kernels/argument_error.h"
#include "kernels/attention/arguments.h"
#include "kernels/attention/backward_kernel.h"
#include "kernels/attention/backward_traversal.h"
#include "kernels/attention/captured_gradients.h"
#include "kernels/attention/gradient_rows.h"
#include "kernels/attention/group_lists.h"
#include "tegula/attention_tiles.h"
#include "tegula/configured_kernel.h"
#include "tegula/int_math.h"
#include "tegula/prepare.h"

namespace tegula::kernels {
namespace {

/// Columns of dK and dV together that registers have room for. Wider calls launch the main kernel
/// twice, and the second launch computes the weights again.
constexpr std::int64_t kMaxColumns = 256;

constexpr const char* kBackwardName = "attention backward";

/// Arguments of a call, including tensors that the caller leaves undefined.
enum BackwardArgument : std::uint8_t {
  kOfQ,
  kOfK,
  kOfV,
  kOfO,
  kOfLse,
  kOfSinks,
  kGradO,
  kGradLse,
  kGradQ,
  kGradK,
  kGradV,
  kGradSinks,
  kOfStartsQ,
  kOfStartsKv,
  kOfBlocks,
  kOfCounts,
  kOfFull,
  kGradCaptured  ///< the first one of kMaxCaptured
};

/// The inputs of a plan except for the tensors.
struct BackwardCall {
  std::optional<std::int64_t> sequences;  ///< number of packed sequences
  CuSeqlens by_keys, by_queries;          ///< lengths of the rows and columns of each traversal
  std::optional<BlockList> blocks;        ///< the caller's
  CapturedSelection captured{};
};

/// Returns the bits of the number of a block of a head that has `blocks` of them.
i32 log2_of(std::int64_t blocks) {
  return static_cast<i32>(std::bit_width(static_cast<std::uint64_t>(blocks)));
}

/// Columns of K and V together up to which shared memory has room for two slots of kGradientRows
/// queries and their gradients.
constexpr std::int64_t kMaxColumnsOfTiles = 384;

/// The same if gradients of captures are added to memory: up to that many columns registers have
/// room for their terms.
constexpr std::int64_t kMaxColumnsOfTerms = 192;

/// Returns the queries of an iteration, for which shared memory and registers have room.
int block_of(const Tensor& K, const Tensor& V, const CapturedSelection& captured) {
  return backward_columns(K.size(3)) + padded_head_dim(V.size(3)) <=
                 (captured.has_sums() ? kMaxColumnsOfTerms : kMaxColumnsOfTiles)
             ? kGradientRows
             : kGradientRows / 2;
}

/// Throws unless the caller's list, if any, is one that the main kernel visits.
void check_transposed(const std::optional<BlockList>& list, bool is_needed, bool is_varlen) {
  const auto refuse = [](const std::string& is, const char* instead) {
    throw_argument_error(ErrorId::kernel_argument, kBackwardName, "saved.blocks", is, instead);
  };
  if (!list && is_needed)
    refuse("not given", "a list by BlockListRows::keys, since the specification has blocks");
  if (!list) return;
  if (is_varlen) refuse("given", "none for packed sequences");
  const AttentionTileShape tiles = backward_list_tiles();
  if (list->block_q % tiles.block_q != 0 || list->block_kv != tiles.block_kv)
    refuse(std::to_string(list->block_q) + " x " + std::to_string(list->block_kv),
           "blocks of 64 or 128 queries and 128 keys");
  check_blocks(*list);
}

void check_call(AttentionNormalization weighting, const Tensor& Q, const Tensor& K, const Tensor& V,
                const AttentionSaved& saved, const AttentionGradients& of,
                const AttentionInputGradients& into, const CuSeqlens* lengths) {
  const AttentionExtras extras{.lse = saved.lse, .sinks = saved.sinks};
  lengths ? varlen_call(Q, K, V, saved.O, *lengths, extras) : dense_call(Q, K, V, saved.O, extras);
  const Dims rows = lengths ? Dims{Q.size(0), Q.size(1)} : Dims{Q.size(0), Q.size(1), Q.size(2)},
             heads{Q.size(1)};
  if (weighting == AttentionNormalization::softmax) {
    require_tensor(kBackwardName, "lse", saved.lse, DType::f32, rows);
  } else {
    for (const auto& [name, t] : {std::pair<const char*, const Tensor&>{"lse", saved.lse},
                                  {"sinks", saved.sinks},
                                  {"the gradient of lse", of.lse}})
      if (t.defined())
        throw_argument_error(ErrorId::kernel_argument, kBackwardName, name, t.str(),
                             "none: nothing divides the sums of scores");
  }
  require_tensor(kBackwardName, "the gradient of O", of.O, Q.dtype(), saved.O.shape());
  require_optional(kBackwardName, "the gradient of lse", of.lse, DType::f32, rows);
  require_optional(kBackwardName, "the gradient of Q", into.Q, Q.dtype(), Q.shape());
  require_optional(kBackwardName, "the gradient of K", into.K, Q.dtype(), K.shape());
  require_optional(kBackwardName, "the gradient of V", into.V, Q.dtype(), V.shape());
  require_optional(kBackwardName, "the gradient of sinks", into.sinks, DType::f32, heads);
  if (into.sinks.defined()) require_tensor(kBackwardName, "sinks", saved.sinks, DType::f32, heads);
  ScoreCaptures::check(into.captured);
}

/// Throws for specifications whose gradients are not built.
void check_differentiable(const AttentionSpec& spec, const AttentionNumerics& numerics) {
  const auto refuse = [](const char* what, const char* is, const char* instead) {
    throw_argument_error(ErrorId::kernel_argument, kBackwardName, what, is, instead);
  };
  if (spec.weighting == AttentionNormalization::stick_breaking)
    refuse("weighting", "stick_breaking", "softmax or none");
  if (spec.kv_range && !spec.mask)
    refuse("kv_range", "given without a mask", "with a mask that keeps the same keys");
  if (numerics.deterministic && spec.blocks)
    refuse("deterministic", "set for a specification with blocks",
           "a mask that keeps the same keys");
}

}  // namespace

/// Kernels of one element type.
template <class T>
struct AttentionBackwardKernels {
  KernelOf<ForwardResults<T>, GradientRows, SinkGradients, PackedQueries<T>> rows =
      gradient_rows<T>();
  KernelOf<In<T, 4>, In<i32, 1>, Out<T, 4>> keys = whole_keys<T>();
  KernelOf<In<f32, 4>, Out<T, 4>, Scalar<f32>, std::optional<In<i32, 1>>> query_gradients =
      kernels::query_gradients<T>();
  mutable tegula::detail::ConfiguredInstances<std::pair<BackwardTiles, CapturedSelection>> main;
  mutable std::atomic<dsl::KernelInstance*> latest = nullptr;
};

struct AttentionBackward::Kernels {
  explicit Kernels(std::shared_ptr<const AttentionHeuristics> of)
      : facts(std::move(of)),
        spec(facts, &facts->spec),
        captures(std::make_shared<const ScoreCaptures>(spec)),
        traversal(std::make_shared<const BackwardTraversal>(*spec, BlockListRows::keys)),
        of_queries(std::make_shared<const BackwardTraversal>(*spec, BlockListRows::queries)) {}

  template <class T>
  const AttentionBackwardKernels<T>& of() const {
    if constexpr (std::is_same_v<T, f16>)
      return of_f16;
    else
      return of_bf16;
  }

  /// The tensors of a call in the layout of the kernels, and its workspace.
  struct Slots {
    PlanSlot Q, K, V, O, lse, dO, dlse, dQ, dK, dV, starts_q, starts_kv;
    PlanSlot L = {}, D = {}, sums = {}, whole_Q = {}, whole_dO = {}, whole_K = {}, whole_V = {};
    CapturedSlots captured = {};
  };

  Slots slots_of(PlanBuilder& plan, const BackwardCall& call) const {
    const auto in_batch = [&](BackwardArgument a) {
      const PlanSlot slot = plan.argument(a);
      return call.sequences && plan.tensor(slot).defined() ? plan.view(slot, as_batch) : slot;
    };
    Slots s{.Q = in_batch(kOfQ),
            .K = in_batch(kOfK),
            .V = in_batch(kOfV),
            .O = in_batch(kOfO),
            .lse = in_batch(kOfLse),
            .dO = in_batch(kGradO),
            .dlse = in_batch(kGradLse),
            .dQ = in_batch(kGradQ),
            .dK = in_batch(kGradK),
            .dV = in_batch(kGradV),
            .starts_q = plan.argument(kOfStartsQ),
            .starts_kv = plan.argument(kOfStartsKv)};
    const Tensor &Q = plan.tensor(s.Q), &K = plan.tensor(s.K);
    const std::int64_t rows = rows_of_workspace(Q, call), blocks = rows / kGradientRows;
    s.L = plan.scratch({Q.size(0), Q.size(1), rows}, DType::f32);
    s.D = plan.scratch({Q.size(0), Q.size(1), rows}, DType::f32);
    const bool is_ordered = facts->numerics.deterministic, wants_Q = plan.tensor(s.dQ).defined();
    if (wants_Q && !is_ordered)
      s.sums = plan.scratch(
          {Q.size(0), Q.size(1), blocks, kGradientRows * backward_columns(Q.size(3))}, DType::f32);
    if (!call.sequences) return s;
    const std::int64_t keys = (K.size(2) / kGradientKeys + *call.sequences) * kGradientKeys;
    s.whole_Q = plan.scratch({1, Q.size(1), rows, Q.size(3)}, Q.dtype());
    const std::int64_t of_v = plan.tensor(s.V).size(3);
    s.whole_dO = plan.scratch({1, Q.size(1), rows, of_v}, Q.dtype());
    if (wants_Q && is_ordered) s.whole_V = plan.scratch({1, K.size(1), keys, of_v}, Q.dtype());
    s.whole_K = plan.scratch({1, K.size(1), keys, K.size(3)}, Q.dtype());
    return s;
  }

  /// Returns the padded queries of a head: whole blocks, also of the caller's lists.
  static std::int64_t rows_of_workspace(const Tensor& Q, const BackwardCall& call) {
    const std::int64_t block = call.blocks ? call.blocks->block_q : kGradientRows;
    if (!call.sequences) return ceil_div(Q.size(2), block) * block;
    return *call.sequences == 0 ? 0 : (Q.size(2) / block + *call.sequences) * block;
  }

  template <class T>
  void build(PlanBuilder& plan, BackwardCall call) const {
    Slots s = slots_of(plan, call);
    const Dims pairs = pairs_of(plan, s, call);
    const bool visits_all = !spec->mask && !call.sequences && !call.blocks;
    call.captured.by_pair = captures->by_pair(call.captured, pairs);
    if (facts->numerics.deterministic)
      captures->check_ordered(call.captured, pairs, plan.tensor(s.K).size(1));
    s.captured = captures->begin<T>(plan, kGradCaptured, call.captured,
                                    visits_all ? std::optional(pairs) : std::nullopt);
    const Tensor &Q = plan.tensor(s.Q), &K = plan.tensor(s.K), &L = plan.tensor(s.L);
    const bool has_rows = L.numel() > 0, has_keys = K.size(2) > 0;
    const float scale = spec->scale.value_or(1.0f / std::sqrt(static_cast<float>(Q.size(3))));
    const auto& kernels = of<T>();
    if (!has_rows && !call.sequences) {
      for (const PlanSlot gradient : {s.dK, s.dV})
        if (plan.tensor(gradient).defined() && plan.tensor(gradient).numel() > 0)
          plan.launch(clear_tensor<T>(), gradient);
    }
    PlanSlot partial;
    const bool has_sinks = plan.tensor(plan.argument(kGradSinks)).defined();
    if (has_sinks)
      partial = plan.scratch({L.size(0), L.size(1), L.size(2) / kGradientRows}, DType::f32);
    if (has_rows && has_keys && call.sequences) {
      plan.launch(kernels.keys, s.K, s.starts_kv, s.whole_K);
      if (plan.tensor(s.whole_V).defined()) plan.launch(kernels.keys, s.V, s.starts_kv, s.whole_V);
    }
    if (has_rows)
      plan.launch(kernels.rows, s.O, s.dO, s.lse, s.dlse, s.L, s.D, s.sums, plan.argument(kOfSinks),
                  partial, s.starts_q, call.sequences ? s.Q : PlanSlot(), s.whole_Q, s.whole_dO);
    const PlanSlot sums = by_block(plan, s.sums, block_of(K, plan.tensor(s.V), call.captured));
    const bool has_dQ = has_rows && Q.size(2) > 0 && plan.tensor(s.dQ).defined();
    const bool is_ordered = facts->numerics.deterministic;
    if (has_dQ && is_ordered && !has_keys && !call.sequences)
      plan.launch(clear_tensor<T>(), s.dQ);
    else if (has_dQ && is_ordered)
      launch_queries<T>(plan, call, s, scale);
    if (has_rows && has_keys) launch_main<T>(plan, call, s, sums, scale);
    if (has_dQ && !is_ordered) plan.launch(kernels.query_gradients, sums, s.dQ, scale, s.starts_q);
    if (has_sinks && Q.size(1) > 0) plan.launch(sinks, partial, plan.argument(kGradSinks));
    ScoreCaptures::finish(plan, kGradCaptured, s.captured);
  }

  /// Returns the numbers of batch entries, heads, queries and keys; lengths of sequences are
  /// unknown.
  static Dims pairs_of(PlanBuilder& plan, const Slots& s, const BackwardCall& call) {
    const Tensor &Q = plan.tensor(s.Q), &K = plan.tensor(s.K);
    return call.sequences ? Dims{*call.sequences, Q.size(1), 0, 0}
                          : Dims{Q.size(0), Q.size(1), Q.size(2), K.size(2)};
  }

  /// Returns the sums of dQ by blocks of the main kernel.
  static PlanSlot by_block(PlanBuilder& plan, PlanSlot sums, int block) {
    if (block == kGradientRows || !plan.tensor(sums).defined()) return sums;
    return plan.view(sums, [parts = kGradientRows / block](const Tensor& t) {
      return t.reshape({t.size(0), t.size(1), t.size(2) * parts, t.size(3) / parts});
    });
  }

  /// Returns the lists of blocks of queries that the call visits, for each query head: those of the
  /// caller, or those that the mask gives.
  BlockListSlots lists_of(PlanBuilder& plan, const BackwardCall& call, const Slots& s) const {
    const Tensor &Q = plan.tensor(s.Q), &K = plan.tensor(s.K), &V = plan.tensor(s.V);
    if (call.blocks)
      return list_slots(
          plan, *call.blocks,
          {Q, {Q.size(0), Q.size(1), ceil_div<std::int64_t>(K.size(2), kGradientKeys)}},
          {plan.argument(kOfBlocks), plan.argument(kOfCounts), plan.argument(kOfFull), {}});
    const Tensor by_head =
        described({Q.size(0), Q.size(1), K.size(2), K.size(3)}, K.dtype(), K.device());
    if (!has_lists(Q, K, V, call)) return {};
    return traversal
        ->lists(plan, by_head, Q, {kGradientKeys, block_of(K, V, call.captured)}, call.by_keys,
                s.starts_kv, s.starts_q)
        .value_or(BlockListSlots{});
  }

  /// Returns true if lists are made from the mask. They do not know about shifted positions;
  /// without one, all blocks are then visited.
  bool has_lists(const Tensor& Q, const Tensor& K, const Tensor& V,
                 const BackwardCall& call) const {
    const bool is_shifted = spec->align_bottom_right && (call.sequences || Q.size(2) != K.size(2));
    return !is_shifted &&
           (traversal->uses_block_list() ||
            (traversal->is_unsolved() &&
             facts->evaluation_pays(
                 {.Q = Q, .K = K, .V = V, .O = Q, .extras = {}, .lengths = call.by_keys})));
  }

  /// Returns the lists in the main kernel's form: its blocks, of the heads of a group together.
  BlockListSlots merged_lists(PlanBuilder& plan, const BackwardCall& call, const Slots& s) const {
    const BlockListSlots lists = lists_of(plan, call, s);
    if (!plan.tensor(lists.blocks).defined()) return {};
    const Dims of = plan.tensor(lists.blocks).shape();
    const std::int64_t kv_heads = plan.tensor(s.K).size(1);
    if (!call.blocks && of[1] == kv_heads) return lists;
    const int block = block_of(plan.tensor(s.K), plan.tensor(s.V), call.captured);
    const std::int64_t parts = call.blocks ? call.blocks->block_q / block : 1,
                       entries = of[3] * parts * (of[1] / kv_heads),
                       blocks = plan.tensor(s.L).size(2) / block;
    const Dims rows{of[0], kv_heads, of[2]};
    const PlanSlot numbers =
        plan.scratch({call.sequences ? 1 : of[0], kv_heads, of[2], entries}, DType::i32);
    const PlanSlot counts = plan.scratch(rows, DType::i32), full = plan.scratch(rows, DType::i32);
    plan.launch(groups, lists.blocks, lists.counts, lists.full, numbers, counts, full, !call.blocks,
                block, static_cast<i32>(parts), static_cast<i32>(blocks), log2_of(blocks),
                s.starts_q);
    return {plan.broadcast_to(numbers, {of[0], kv_heads, of[2], entries}), counts, full, {}};
  }

  /// Tensors and lists of the main kernel, by the names of its parameters (BackwardTiles).
  struct MainArguments {
    PlanSlot Q, K, V, dO, dQ, dK, dV, starts_q, starts_kv;
    BlockListSlots lists;
    i32 log2_blocks = 0;
  };

  template <class T>
  void launch(PlanBuilder& plan, const Slots& s, const MainArguments& x, float scale,
              const BackwardTiles& tiles, const CapturedSelection& selected = {},
              const CapturedSlots& captured = {}) const {
    const auto& kernels = of<T>();
    const BackwardKernel<T> kernel(kernels.main.of({tiles, selected}, [&] {
      return backward_kernel<T>(spec, tiles.of_queries ? of_queries : traversal, tiles,
                                {captures, selected})
          .shared_instance();
    }));
    kernels.latest = kernel.shared_instance().get();
    const bool is_grouped = plan.tensor(x.Q).size(1) != plan.tensor(x.K).size(1);
    const auto with_views = [&](const auto&... views) {
      plan.launch(kernel, x.Q, x.K, x.V, x.dO, s.L, s.D, x.dQ, x.dK, x.dV, scale, is_grouped,
                  x.log2_blocks, x.lists.blocks, x.lists.counts, x.lists.full, x.starts_q,
                  x.starts_kv, views...);
    };
    std::apply(with_views, std::tuple_cat(captured.f32s, captured.pairs));
  }

  /// Computes dQ by a loop over keys for each tile of queries, in a fixed order.
  template <class T>
  void launch_queries(PlanBuilder& plan, const BackwardCall& call, const Slots& s,
                      float scale) const {
    const Tensor &Q = plan.tensor(s.Q), &K = plan.tensor(s.K), &V = plan.tensor(s.V);
    const bool is_packed = call.sequences.has_value();
    const int of_k = padded_head_dim(K.size(3)), of_v = padded_head_dim(V.size(3));
    const bool is_wide = of_k + of_v > kMaxColumns;
    const BackwardTiles tiles{.block_q = block_of(K, V, {}),
                              .block_kv = is_packed ? kGradientRows : kGradientKeys,
                              .stages = std::max(of_k, of_v) > 64 ? 2 : 4,
                              .store_columns = is_wide ? 32 : 0,
                              .tma_aux_loads = !is_wide && has_room_for_pairs(),
                              .of_queries = true};
    BlockListSlots lists;
    if (has_lists(Q, K, V, call))
      lists = of_queries
                  ->lists(plan, Q, K, {tiles.block_kv, tiles.block_q}, call.by_queries, s.starts_q,
                          s.starts_kv)
                  .value_or(BlockListSlots{});
    launch<T>(plan, s,
              {is_packed ? s.whole_K : s.K,
               is_packed ? s.whole_Q : s.Q,
               s.dO,
               is_packed ? s.whole_V : s.V,
               {},
               s.dQ,
               {},
               s.starts_kv,
               s.starts_q,
               lists},
              scale, tiles);
  }

  template <class T>
  void launch_main(PlanBuilder& plan, const BackwardCall& call, const Slots& s, PlanSlot sums,
                   float scale) const {
    const bool has_dK = plan.tensor(s.dK).defined() || plan.tensor(sums).defined() ||
                        call.captured.any(),
               has_dV = plan.tensor(s.dV).defined();
    if (!has_dK && !has_dV) return;
    const Tensor &Q = plan.tensor(s.Q), &K = plan.tensor(s.K), &V = plan.tensor(s.V);
    const int block = block_of(K, V, call.captured);
    const bool is_packed = call.sequences.has_value();
    const MainArguments x{is_packed ? s.whole_Q : s.Q,
                          is_packed ? s.whole_K : s.K,
                          s.V,
                          is_packed ? s.whole_dO : s.dO,
                          sums,
                          s.dK,
                          s.dV,
                          s.starts_q,
                          s.starts_kv,
                          merged_lists(plan, call, s),
                          log2_of(plan.tensor(s.L).size(2) / block)};
    // Slots by measurement: docs/experiments/2026-11-29-attention-backward.md.
    const std::int64_t of_k = backward_columns(K.size(3)), of_v = padded_head_dim(V.size(3));
    if (of_k + of_v <= kMaxColumns)
      return launch<T>(plan, s, x, scale,
                       {.block_q = block,
                        .stages = std::max(of_k, of_v) > 64 ? 2 : 4,
                        .tma_aux_loads = has_room_for_pairs()},
                       call.captured, s.captured);
    // Without dQ there is shared memory for twice the queries. Lists have blocks of one size, and
    // groups of heads and scores need more registers.
    const bool is_grouped = Q.size(1) != K.size(1),
               has_room = !plan.tensor(x.lists.blocks).defined() &&
                          (of_v <= 192 || (!is_grouped && !spec->score));
    BackwardTiles tiles{.block_q = has_room ? kGradientRows : block, .store_columns = 32};
    MainArguments of_V = x, of_K = x;
    of_V.dQ = of_V.dK = of_K.dV = {};
    if (has_dV) launch<T>(plan, s, of_V, scale, tiles);
    tiles.block_q = block;
    if (has_dK) launch<T>(plan, s, of_K, scale, tiles, call.captured, s.captured);
  }

  /// Returns true if TMA can load what the score reads for each pair. Elements of more bytes leave
  /// no room for two slots at head dim 128.
  bool has_room_for_pairs() const {
    constexpr int kMaxBytesOfPair = 4;
    const int bytes = facts->schedule.tma_aux_loads ? facts->score.tma_bytes_per_element : 0;
    return bytes > 0 && bytes <= kMaxBytesOfPair;
  }

  std::shared_ptr<const AttentionHeuristics> facts;
  std::shared_ptr<const AttentionSpec> spec;
  std::shared_ptr<const ScoreCaptures> captures;
  std::shared_ptr<const BackwardTraversal> traversal, of_queries;  ///< of tiles of keys, of queries
  AttentionBackwardKernels<bf16> of_bf16;
  AttentionBackwardKernels<f16> of_f16;
  KernelOf<In<f32, 3>, Out<f32, 1>> sinks = sink_gradients();
  GroupListsKernel groups = group_lists();
  CallPlans plans{StrideKey::exact};
};

AttentionBackward::AttentionBackward(std::shared_ptr<const AttentionHeuristics> facts) {
  check_differentiable(facts->spec, facts->numerics);
  kernels_ = std::make_unique<Kernels>(std::move(facts));
}
AttentionBackward::~AttentionBackward() = default;

void AttentionBackward::call(const Stream& stream, const Tensor& Q, const Tensor& K,
                             const Tensor& V, const AttentionSaved& saved,
                             const AttentionGradients& of, const AttentionInputGradients& into,
                             const CuSeqlens* lengths) const {
  static const BlockList kNoList;
  const BlockList& list = saved.blocks ? *saved.blocks : kNoList;
  const CuSeqlens of_call = lengths ? *lengths : CuSeqlens();
  const auto own = tensor_args(Q, K, V, saved.O, saved.lse, saved.sinks, of.O, of.lse, into.Q,
                               into.K, into.V, into.sinks, of_call.q, of_call.kv, list.kv_indices,
                               list.kv_num_blocks, list.full_kv_num_blocks);
  static const Tensor kNone;
  std::array<tegula::detail::HostArg, kGradCaptured + kMaxCaptured> args;
  args.fill(tensor_args(kNone)[0]);
  std::ranges::copy(own, args.begin());
  const CapturedSelection selected = kernels_->captures->select(into.captured);
  for (std::size_t i = 0; i < into.captured.size(); ++i)
    args[kGradCaptured + i] = tensor_args(into.captured[i].into)[0];
  // Lists need a bound of the keys of a sequence.
  const bool is_self = lengths && of_call.q.defined() && of_call.kv.defined() &&
                       of_call.q.data() == of_call.kv.data();
  const PlanOptions own_options{lengths != nullptr,       of_call.max_seqlen_q, is_self,
                                saved.blocks.has_value(), list.block_q,         list.block_kv};
  std::array<std::uint64_t, 6 + kMaxCaptured> options;
  std::ranges::copy(std::span<const std::uint64_t>(own_options), options.begin());
  std::ranges::copy(selected.captures, options.end() - kMaxCaptured);
  kernels_->plans.call(stream, args, options, [&](PlanBuilder& plan) {
    check_call(kernels_->spec->weighting, Q, K, V, saved, of, into, lengths);
    check_transposed(saved.blocks, kernels_->spec->blocks.has_value(), lengths != nullptr);
    BackwardCall call{.sequences = {},
                      .by_keys = {},
                      .by_queries = {},
                      .blocks = saved.blocks,
                      .captured = selected};
    if (lengths) {
      call.sequences = lengths->q.size(0) - 1;
      const std::int64_t longest = is_self ? lengths->max_seqlen_q : K.size(0);
      call.by_keys = {lengths->kv, lengths->q, std::min(longest, K.size(0))};
      call.by_queries = {lengths->q, lengths->kv, std::min(lengths->max_seqlen_q, Q.size(0))};
    } else if (kernels_->spec->align_bottom_right) {
      require_keys_for_queries(Q, K);
    }
    Q.dtype() == DType::f16 ? kernels_->build<f16>(plan, call) : kernels_->build<bf16>(plan, call);
  });
}

std::string AttentionBackward::explain(DType dtype) const {
  dsl::KernelInstance* const latest =
      dtype == DType::f16 ? kernels_->of_f16.latest.load() : kernels_->of_bf16.latest.load();
  if (!latest) return {};
  return "backward: " + tegula::detail::explain(*latest) +
         "queries visited: " + kernels_->traversal->text() + "\n" + kernels_->traversal->explain();
}

}  // namespace tegula::kernels
