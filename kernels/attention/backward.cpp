#include "kernels/attention/backward.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "kernels/argument_error.h"
#include "kernels/attention/arguments.h"
#include "kernels/attention/backward_kernel.h"
#include "kernels/attention/gradient_rows.h"
#include "kernels/attention/group_lists.h"
#include "kernels/attention/query_traversal.h"
#include "tegula/attention_tiles.h"
#include "tegula/configured_kernel.h"
#include "tegula/int_math.h"
#include "tegula/prepare.h"

namespace tegula::kernels {
namespace {

/// Columns of accumulators, of dK and dV together, that registers have room for. Calls with wider
/// ones are two launches, the second of which computes the weights again.
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
  kOfFull
};

/// What a plan is built from, apart from the tensors.
struct BackwardCall {
  std::optional<std::int64_t> sequences;  ///< packed ones
  CuSeqlens lengths;                      ///< of keys, then of queries: rows are keys
  std::optional<BlockList> blocks;        ///< the caller's
};

/// Returns the bits of the number of a block of a head that has `blocks` of them.
i32 log2_of(std::int64_t blocks) {
  return static_cast<i32>(std::bit_width(static_cast<std::uint64_t>(blocks)));
}

/// Returns the queries of an iteration, for which registers and shared memory have room.
int block_of(const Tensor& Q) { return Q.size(3) > 128 ? kGradientRows / 2 : kGradientRows; }

/// Blocks of a list of rows of keys (BlockListRows::keys).
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
}

/// Throws for specifications whose gradients are not built.
void check_differentiable(const AttentionSpec& spec) {
  const auto refuse = [](const char* what, const char* is, const char* instead) {
    throw_argument_error(ErrorId::kernel_argument, kBackwardName, what, is, instead);
  };
  if (spec.weighting == AttentionNormalization::stick_breaking)
    refuse("weighting", "stick_breaking", "softmax or none");
  if (spec.kv_range && !spec.mask)
    refuse("kv_range", "given without a mask", "with a mask that keeps the same keys");
}

/// Clears the gradients of keys that no query sees.
template <class T>
auto zero_gradients() {
  return kernel("attention_zero_gradients", [](Out<T, 4> gradient) {
    for (auto [b, h, n] :
         grid({gradient.dim(0), gradient.dim(1), gradient.dim(2)}, 1, 1, kGradientRows))
      gradient(b, h, n, all) = zeros<T>(kGradientRows, gradient.static_dim(3));
  });
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
  mutable tegula::detail::ConfiguredInstances<BackwardTiles> main;
  mutable std::atomic<dsl::KernelInstance*> latest = nullptr;
};

struct AttentionBackward::Kernels {
  explicit Kernels(std::shared_ptr<const AttentionHeuristics> of)
      : facts(std::move(of)),
        spec(facts, &facts->spec),
        traversal(std::make_shared<const QueryTraversal>(*spec)) {}

  template <class T>
  const AttentionBackwardKernels<T>& of() const {
    if constexpr (std::is_same_v<T, f16>)
      return of_f16;
    else
      return of_bf16;
  }

  /// The workspace of a call.
  struct Workspace {
    PlanSlot L, D, dQ, whole_Q, whole_dO, whole_K;
  };

  template <class T>
  void build(PlanBuilder& plan, const BackwardCall& call) const {
    const auto defined = [&](BackwardArgument a) {
      return plan.tensor(plan.argument(a)).defined();
    };
    const auto in_batch = [&](BackwardArgument a) { return slot_of(plan, call, a); };
    const Tensor &Q = plan.tensor(in_batch(kOfQ)), &K = plan.tensor(in_batch(kOfK)),
                 &V = plan.tensor(in_batch(kOfV));
    const std::int64_t rows_of_block =
        call.blocks ? std::max(call.blocks->block_q, kGradientRows) : kGradientRows;
    const std::int64_t padded =
        !call.sequences ? ceil_div(Q.size(2), rows_of_block) * rows_of_block
        : *call.sequences > 0
            ? (Q.size(2) / kGradientRows + *call.sequences) * kGradientRows
            : 0;
    const Dims rows{Q.size(0), Q.size(1), padded};
    const bool has_rows = rows[0] * rows[1] * padded > 0;
    const float scale = spec->scale.value_or(1.0f / std::sqrt(static_cast<float>(Q.size(3))));
    const auto& kernels = of<T>();
    if (!has_rows && !call.sequences) {
      static const auto* const zero = new auto(zero_gradients<T>());
      for (const BackwardArgument a : {kGradK, kGradV})
        if (defined(a) && plan.tensor(plan.argument(a)).numel() > 0)
          plan.launch(*zero, plan.argument(a));
    }
    Workspace w{plan.scratch(rows, DType::f32), plan.scratch(rows, DType::f32), {}, {}, {}, {}};
    const std::int64_t blocks = padded / kGradientRows;
    PlanSlot partial, queries;
    if (defined(kGradQ))
      w.dQ = plan.scratch(
          {rows[0], rows[1], blocks, kGradientRows * backward_columns(Q.size(3))}, DType::f32);
    if (defined(kGradSinks)) partial = plan.scratch({rows[0], rows[1], blocks}, DType::f32);
    if (call.sequences) {
      queries = in_batch(kOfQ);
      w.whole_Q = plan.scratch({1, rows[1], padded, Q.size(3)}, Q.dtype());
      w.whole_dO = plan.scratch({1, rows[1], padded, V.size(3)}, Q.dtype());
      const std::int64_t keys =
          (K.size(2) / kGradientKeys + *call.sequences) * kGradientKeys;
      w.whole_K = plan.scratch({1, K.size(1), keys, K.size(3)}, Q.dtype());
      if (has_rows && K.size(2) > 0)
        plan.launch(kernels.keys, in_batch(kOfK), plan.argument(kOfStartsKv), w.whole_K);
    }
    const PlanSlot starts = plan.argument(kOfStartsQ);
    const PlanSlot sums = w.dQ;
    if (const int block = block_of(Q); block < kGradientRows && defined(kGradQ))
      w.dQ = plan.view(sums, [parts = kGradientRows / block](const Tensor& t) {
        return t.reshape({t.size(0), t.size(1), t.size(2) * parts, t.size(3) / parts});
      });
    if (has_rows)
      plan.launch(kernels.rows, in_batch(kOfO), in_batch(kGradO), in_batch(kOfLse),
                  in_batch(kGradLse), w.L, w.D, sums, plan.argument(kOfSinks), partial, starts,
                  queries, w.whole_Q, w.whole_dO);
    if (has_rows && K.size(2) > 0) launch_main<T>(plan, call, scale, w);
    if (has_rows && defined(kGradQ) && Q.size(2) > 0)
      plan.launch(kernels.query_gradients, w.dQ, in_batch(kGradQ), scale, starts);
    if (defined(kGradSinks) && Q.size(1) > 0)
      plan.launch(sinks, partial, plan.argument(kGradSinks));
  }

  /// Returns an argument in the layout of the kernels.
  static PlanSlot slot_of(PlanBuilder& plan, const BackwardCall& call, BackwardArgument a) {
    const PlanSlot slot = plan.argument(a);
    return call.sequences && plan.tensor(slot).defined() ? plan.view(slot, as_batch) : slot;
  }

  /// Returns true if lists are made by evaluating a mask that is not solved.
  bool evaluates_mask(const Tensor& Q, const Tensor& K, const Tensor& V,
                      const CuSeqlens& lengths) const {
    return traversal->is_unsolved() &&
           facts->evaluation_pays(
               {.Q = Q, .K = K, .V = V, .O = Q, .extras = {}, .lengths = lengths});
  }

  /// Returns the lists of the call, of blocks of queries: those of the caller, or those that the
  /// mask gives.
  BlockListSlots lists_of(PlanBuilder& plan, const BackwardCall& call, const Tensor& Q,
                          const Tensor& K, const Tensor& V) const {
    const BlockShape tiles{kGradientKeys, block_of(Q)};
    if (call.blocks)
      return list_slots(
          plan, *call.blocks,
          {Q, {Q.size(0), Q.size(1), ceil_div<std::int64_t>(K.size(2), kGradientKeys)}},
          {plan.argument(kOfBlocks), plan.argument(kOfCounts), plan.argument(kOfFull), {}});
    // Lists do not know about shifted positions; without one, all blocks are visited.
    const bool is_shifted =
        spec->align_bottom_right && (call.sequences || Q.size(2) != K.size(2));
    if (is_shifted || !(traversal->uses_block_list() || evaluates_mask(Q, K, V, call.lengths)))
      return {};
    const Tensor by_head =
        described({Q.size(0), Q.size(1), K.size(2), K.size(3)}, K.dtype(), K.device());
    return traversal
        ->lists(plan, by_head, Q, tiles, call.lengths,
                plan.argument(kOfStartsKv), plan.argument(kOfStartsQ))
        .value_or(BlockListSlots{});
  }

  /// Returns the lists in the kernel's form: blocks of kGradientRows queries, of the heads of a
  /// group together.
  BlockListSlots merged(PlanBuilder& plan, const BackwardCall& call, const BlockListSlots& lists,
                        std::int64_t kv_heads, std::int64_t padded, int block) const {
    const Dims of = plan.tensor(lists.blocks).shape();
    if (!call.blocks && of[1] == kv_heads) return lists;
    const std::int64_t parts = call.blocks ? call.blocks->block_q / block : 1,
                       entries = of[3] * parts * of[1] / kv_heads;
    const Dims rows{of[0], kv_heads, of[2]};
    const PlanSlot blocks =
        plan.scratch({call.sequences ? 1 : of[0], kv_heads, of[2], entries}, DType::i32);
    const BlockListSlots into{
        blocks, plan.scratch(rows, DType::i32), plan.scratch(rows, DType::i32), {}};
    plan.launch(groups, lists.blocks, lists.counts, lists.full, into.blocks, into.counts,
                into.full, !call.blocks, block, static_cast<i32>(parts),
                static_cast<i32>(padded / block), log2_of(padded / block),
                plan.argument(kOfStartsQ));
    return {plan.broadcast_to(blocks, {of[0], kv_heads, of[2], entries}), into.counts, into.full,
            {}};
  }

  template <class T>
  void launch_main(PlanBuilder& plan, const BackwardCall& call, float scale,
                   const Workspace& w) const {
    const auto in_batch = [&](BackwardArgument a) { return slot_of(plan, call, a); };
    const PlanSlot q = in_batch(kOfQ), k = in_batch(kOfK), v = in_batch(kOfV);
    const Tensor &Q = plan.tensor(q), &K = plan.tensor(k), &V = plan.tensor(v);
    BlockListSlots lists = lists_of(plan, call, Q, K, V);
    const std::int64_t rows = plan.tensor(w.L).size(2);
    const int block = block_of(Q);
    if (plan.tensor(lists.blocks).defined())
      lists = merged(plan, call, lists, K.size(1), rows, block);
    const std::int64_t of_k = backward_columns(K.size(3)), of_v = padded_head_dim(V.size(3));
    const auto launch = [&](PlanSlot dQ, PlanSlot dK, PlanSlot dV, int block_q, int stages) {
      const BackwardTiles tiles{.block_q = block_q, .stages = stages};
      const auto& kernels = of<T>();
      const BackwardKernel<T> kernel(kernels.main.of(
          tiles, [&] { return backward_kernel<T>(spec, traversal, tiles).shared_instance(); }));
      kernels.latest = kernel.shared_instance().get();
      plan.launch(kernel, call.sequences ? w.whole_Q : q, call.sequences ? w.whole_K : k, v,
                  call.sequences ? w.whole_dO : in_batch(kGradO), w.L, w.D, dQ, dK, dV, scale,
                  Q.size(1) != K.size(1), log2_of(rows / block), lists.blocks, lists.counts, lists.full,
                  plan.argument(kOfStartsQ), plan.argument(kOfStartsKv));
    };
    // Slots by measurement: docs/experiments/2026-11-29-attention-backward.md.
    const PlanSlot dK = in_batch(kGradK), dV = in_batch(kGradV);
    if (of_k + of_v <= kMaxColumns)
      return launch(w.dQ, dK, dV, block, std::max(of_k, of_v) > 64 ? 2 : 4);
    // Without dQ there is shared memory for twice the queries. Lists have blocks of one size, and
    // groups of heads need more registers.
    const bool has_room =
        !plan.tensor(lists.blocks).defined() && (Q.size(1) == K.size(1) || of_v <= 192);
    if (plan.tensor(dV).defined()) launch({}, {}, dV, has_room ? kGradientRows : block, 2);
    if (plan.tensor(dK).defined() || plan.tensor(w.dQ).defined())
      launch(w.dQ, dK, {}, block, 2);
  }

  std::shared_ptr<const AttentionHeuristics> facts;
  std::shared_ptr<const AttentionSpec> spec;
  std::shared_ptr<const QueryTraversal> traversal;
  AttentionBackwardKernels<bf16> of_bf16;
  AttentionBackwardKernels<f16> of_f16;
  KernelOf<In<f32, 3>, Out<f32, 1>> sinks = sink_gradients();
  GroupListsKernel groups = group_lists();
  CallPlans plans{StrideKey::exact};
};

AttentionBackward::AttentionBackward(std::shared_ptr<const AttentionHeuristics> facts) {
  check_differentiable(facts->spec);
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
  const auto args = tensor_args(Q, K, V, saved.O, saved.lse, saved.sinks, of.O, of.lse, into.Q,
                                into.K, into.V, into.sinks, of_call.q, of_call.kv, list.kv_indices,
                                list.kv_num_blocks, list.full_kv_num_blocks);
  // Lists need a bound of the keys of a sequence.
  const bool is_self = lengths && of_call.q.defined() && of_call.kv.defined() &&
                       of_call.q.data() == of_call.kv.data();
  const PlanOptions options{lengths != nullptr,        of_call.max_seqlen_q, is_self,
                            saved.blocks.has_value(), list.block_q,         list.block_kv};
  kernels_->plans.call(stream, args, options, [&](PlanBuilder& plan) {
    check_call(kernels_->spec->weighting, Q, K, V, saved, of, into, lengths);
    check_transposed(saved.blocks, kernels_->spec->blocks.has_value(), lengths != nullptr);
    BackwardCall call{.sequences = {}, .lengths = {}, .blocks = saved.blocks};
    if (lengths) {
      call.sequences = lengths->q.size(0) - 1;
      const std::int64_t longest = is_self ? lengths->max_seqlen_q : K.size(0);
      call.lengths = {lengths->kv, lengths->q, std::min(longest, K.size(0))};
    } else if (kernels_->spec->align_bottom_right) {
      require_keys_for_queries(Q, K);
    }
    Q.dtype() == DType::f16 ? kernels_->build<f16>(plan, call)
                            : kernels_->build<bf16>(plan, call);
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
