#include "kernels/attention/backward.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <tuple>

#include "kernels/argument_error.h"
#include "kernels/attention/arguments.h"
#include "tegula/attention_backward_config.h"
#include "tegula/attention_tiles.h"
#include "tegula/int_math.h"
#include "tegula/prepare.h"

namespace tegula::kernels {
namespace {

constexpr const char* kBackwardName = "attention backward";

void check_call(const AttentionSpec& spec, const Tensor& Q, const Tensor& K, const Tensor& V,
                const AttentionSaved& saved, const AttentionGradients& of,
                const AttentionInputGradients& into, const CuSeqlens* lengths) {
  const AttentionExtras extras{.lse = saved.lse, .sinks = saved.sinks};
  lengths ? varlen_call(Q, K, V, saved.O, *lengths, extras) : dense_call(Q, K, V, saved.O, extras);
  const Dims rows = lengths ? Dims{Q.size(0), Q.size(1)} : Dims{Q.size(0), Q.size(1), Q.size(2)},
             heads{Q.size(1)};
  if (spec.weighting == AttentionNormalization::softmax) {
    require_tensor(kBackwardName, "lse", saved.lse, DType::f32, rows);
  } else {
    for (const auto& [name, t] : {std::pair<const char*, const Tensor&>{"lse", saved.lse},
                                  {"sinks", saved.sinks},
                                  {"the gradient of lse", of.lse}})
      if (t.defined()) refuse_backward(name, t.str(), "none: nothing divides the sums of scores");
  }
  require_tensor(kBackwardName, "the gradient of O", of.O, Q.dtype(), saved.O.shape());
  require_optional(kBackwardName, "the gradient of lse", of.lse, DType::f32, rows);
  require_optional(kBackwardName, "the gradient of Q", into.Q, Q.dtype(), Q.shape());
  require_optional(kBackwardName, "the gradient of K", into.K, Q.dtype(), K.shape());
  require_optional(kBackwardName, "the gradient of V", into.V, Q.dtype(), V.shape());
  require_optional(kBackwardName, "the gradient of sinks", into.sinks, DType::f32, heads);
  if (into.sinks.defined()) require_tensor(kBackwardName, "sinks", saved.sinks, DType::f32, heads);
  ScoreCaptures::check(into.captured);
  const auto& list = saved.blocks;
  if (!list && spec.blocks)
    refuse_backward("saved.blocks", "left out",
                    "a list by BlockListRows::keys, since the specification has blocks");
  if (!list) return;
  if (list->block_q % kGradientRows != 0 || list->block_kv != kGradientKeys)
    refuse_backward("saved.blocks",
                    std::to_string(list->block_q) + " x " + std::to_string(list->block_kv),
                    "blocks of 64 or 128 queries and 128 keys");
  check_blocks(*list);
}

/// Returns the analysis of the mask, with the roles of queries and keys exchanged for rows of keys.
std::shared_ptr<const BlockMask> block_mask(const Mask& mask, BlockListRows rows) {
  if (!mask) return nullptr;
  if (rows == BlockListRows::queries) return std::make_shared<const BlockMask>(mask);
  return std::make_shared<const BlockMask>(
      [mask](const Tile& b, const Tile& h, const Tile& key, const Tile& query) {
        return mask(b, h, query, key);
      });
}

}  // namespace

/// The inputs of a plan except for the tensors.
struct BackwardCall {
  std::optional<BlockList> blocks;  ///< the caller's
  CapturedSelection captured;
  std::optional<std::int64_t> sequences = {};  ///< number of packed sequences
  CuSeqlens by_keys = {}, by_queries = {};     ///< lengths of rows and columns of each traversal
  std::int64_t listed_keys = 0;  ///< for which `blocks` must have rows, as far as the host knows
};

/// Arguments of a call in their order; gradients of captures come last. Tensors of packed sequences
/// are views of one batch entry; those that the caller leaves out are undefined.
struct BackwardSlots {
  PlanSlot Q, K, V, O, lse, sinks, dO, dlse, dQ, dK, dV, dsinks, starts_q, starts_kv;
  BlockListSlots blocks;

  BackwardSlots(PlanBuilder& plan, bool is_packed) {
    std::size_t number = 0;
    for (PlanSlot* slot : {&Q, &K, &V, &O, &lse, &sinks, &dO, &dlse, &dQ, &dK, &dV, &dsinks,
                           &starts_q, &starts_kv, &blocks.blocks, &blocks.counts, &blocks.full}) {
      const Tensor& t = plan.tensor(*slot = plan.argument(number++));
      if (is_packed && t.rank() > 1 && t.dtype() != DType::i32) *slot = plan.view(*slot, as_batch);
    }
  }
};

/// Adds the launches of one call to its plan.
template <class T>
class BackwardPlan {
 public:
  BackwardPlan(const AttentionBackward& all, const BackwardKernels<T>& kernels, PlanBuilder& plan,
               BackwardCall call)
      : all_(all),
        spec_(all.facts_->spec),
        kernels_(kernels),
        plan_(plan),
        call_(std::move(call)),
        s_(plan, is_packed()),
        Q_(plan.tensor(s_.Q)),
        K_(plan.tensor(s_.K)),
        V_(plan.tensor(s_.V)),
        scale_(spec_.scale.value_or(1.0f / std::sqrt(static_cast<float>(Q_.size(3))))) {
    const Dims pairs = is_packed() ? Dims{*call_.sequences, Q_.size(1), 0, 0}  // unknown lengths
                                   : Dims{Q_.size(0), Q_.size(1), Q_.size(2), K_.size(2)};
    all.captures_->classify(call_.captured, pairs,
                            is_ordered() ? std::optional(K_.size(1)) : std::nullopt);
    config_ = config(false);
    make_workspace();
    const bool visits_all = !spec_.mask && !is_packed() && !call_.blocks;
    captured_ = all.captures_->begin(plan, Q_.dtype(), call_.captured,
                                     visits_all ? std::optional(pairs) : std::nullopt);
  }

  void add() {
    const bool has_rows = plan_.tensor(L_).numel() > 0, has_keys = K_.size(2) > 0,
               has_dQ = has_rows && Q_.size(2) > 0 && is_given(s_.dQ);
    if (!has_rows && !is_packed()) add_clear(plan_, s_.dK), add_clear(plan_, s_.dV);
    if (is_packed() && has_rows && has_keys) {
      plan_.launch(kernels_.whole_keys, s_.K, s_.starts_kv, whole_K_);
      if (whole_V_ != s_.V) plan_.launch(kernels_.whole_keys, s_.V, s_.starts_kv, whole_V_);
    }
    const auto packed = [&](PlanSlot slot) { return is_packed() ? slot : PlanSlot(); };
    if (has_rows)
      plan_.launch(kernels_.rows, s_.O, s_.dO, s_.lse, s_.dlse, L_, D_, sums_, s_.sinks, partial_,
                   s_.starts_q, packed(s_.Q), packed(whole_Q_), packed(whole_dO_));
    if (has_dQ && is_ordered()) has_keys || is_packed() ? add_queries() : add_clear(plan_, s_.dQ);
    if (has_rows && has_keys) add_keys();
    if (has_dQ && !is_ordered())
      plan_.launch(kernels_.query_gradients, sums_by_block(), s_.dQ, scale_, s_.starts_q);
    if (is_given(s_.dsinks) && Q_.size(1) > 0) plan_.launch(all_.sinks_, partial_, s_.dsinks);
    ScoreCaptures::finish(plan_, captured_);
  }

 private:
  /// Tensors and lists of the main kernel, by the names of its parameters (BackwardTiles).
  struct MainArguments {
    PlanSlot Q, K, V, dO, dQ, dK, dV, starts_q, starts_kv;
    BlockListSlots lists;
    i32 log2_blocks = 0;
  };

  bool is_packed() const { return call_.sequences.has_value(); }
  bool is_ordered() const { return all_.facts_->numerics.deterministic; }
  bool is_given(PlanSlot slot) const { return plan_.tensor(slot).defined(); }

  /// Returns the configuration of the launches whose rows are keys, or queries.
  AttentionBackwardConfig config(bool of_queries) const {
    AttentionBackwardProblem p{.queries = Q_.size(2), .keys = K_.size(2)};
    p.matrices = Q_.size(0) * Q_.size(1), p.sequences = call_.sequences.value_or(1);
    p.columns = backward_columns(K_.size(3)), p.columns_v = padded_head_dim(V_.size(3));
    p.operands = Q_.dtype(), p.kv_extent = all_.facts_->traversal.kv_extent();
    p.is_varlen = is_packed(), p.is_grouped = Q_.size(1) != K_.size(1);
    p.has_lists = call_.blocks.has_value(), p.has_score = spec_.score != nullptr;
    p.of_queries = of_queries, p.adds_queries = is_given(s_.dQ) && !is_ordered();
    p.sums_captures = !of_queries && call_.captured.has_sums();
    p.has_both = is_given(s_.dK) && is_given(s_.dV);
    return choose_attention_backward(p, Q_.device());
  }

  /// Returns the number of whole blocks of `rows` rows of a head, which sequences share.
  std::int64_t whole_rows(std::int64_t rows, std::int64_t block) const {
    if (!is_packed()) return round_up(rows, block);
    return *call_.sequences == 0 ? 0 : (rows / block + *call_.sequences) * block;
  }

  void make_workspace() {
    // Lists of the caller may have larger blocks.
    const std::int64_t block = call_.blocks ? call_.blocks->block_q : kGradientRows,
                       rows = whole_rows(Q_.size(2), block),
                       keys = whole_rows(K_.size(2), kGradientKeys), tiles = rows / kGradientRows;
    const std::int64_t b = Q_.size(0), h = Q_.size(1), columns = backward_columns(Q_.size(3));
    L_ = plan_.scratch({b, h, rows}, DType::f32), D_ = plan_.scratch({b, h, rows}, DType::f32);
    if (is_given(s_.dQ) && !is_ordered())
      sums_ = plan_.scratch({b, h, tiles, kGradientRows * columns}, DType::f32);
    if (is_given(s_.dsinks)) partial_ = plan_.scratch({b, h, tiles}, DType::f32);
    const auto whole = [&](PlanSlot of, std::int64_t extent) {
      const Tensor& t = plan_.tensor(of);
      return is_packed() ? plan_.scratch({1, t.size(1), extent, t.size(3)}, t.dtype()) : of;
    };
    whole_Q_ = whole(s_.Q, rows), whole_K_ = whole(s_.K, keys), whole_dO_ = whole(s_.dO, rows);
    whole_V_ = is_given(s_.dQ) && is_ordered() ? whole(s_.V, keys) : s_.V;
  }

  /// Returns the sums of dQ by blocks of the main kernel.
  PlanSlot sums_by_block() {
    if (config_.block_q == kGradientRows || !is_given(sums_)) return sums_;
    return plan_.view(sums_, [parts = kGradientRows / config_.block_q](const Tensor& t) {
      return t.reshape({t.size(0), t.size(1), t.size(2) * parts, t.size(3) / parts});
    });
  }

  /// Returns true if lists are made from the mask. Lists do not support shifted positions;
  /// without one, all blocks are then visited.
  bool has_lists() const {
    if (spec_.align_bottom_right && (is_packed() || Q_.size(2) != K_.size(2))) return false;
    const auto pays = [&] {
      return all_.facts_->evaluation_pays({Q_, K_, V_, Q_, {}, call_.by_keys});
    };
    const BlockMask* mask = all_.of_keys_.get();
    return mask && (mask->uses_block_list() || (mask->is_unsolved() && pays()));
  }

  /// Returns the lists of a mask of `rows` and `columns`, undefined if it has none. `lengths` and
  /// the slots of their starts are those of packed sequences.
  BlockListSlots derived_lists(const std::shared_ptr<const BlockMask>& mask, const Tensor& rows,
                               const Tensor& columns, BlockShape block, const CuSeqlens& lengths,
                               PlanSlot starts_of_rows, PlanSlot starts_of_columns) {
    if (!has_lists()) return {};
    const auto lists = mask->lists(plan_, rows, columns, columns, rows, block, {.lengths = lengths},
                                   starts_of_rows, starts_of_columns);
    return lists.value_or(BlockListSlots{});
  }

  /// Returns the lists of blocks of queries that the call visits, for each query head: those of the
  /// caller, or those that the mask gives.
  BlockListSlots lists_by_head() {
    const Dims rows{call_.sequences.value_or(Q_.size(0)), Q_.size(1),
                    ceil_div<std::int64_t>(call_.listed_keys, kGradientKeys)};
    if (call_.blocks) return list_slots(plan_, *call_.blocks, {Q_, rows, is_packed()}, s_.blocks);
    const Tensor by_head =
        described({Q_.size(0), Q_.size(1), K_.size(2), K_.size(3)}, K_.dtype(), K_.device());
    return derived_lists(all_.of_keys_, by_head, Q_, {config_.block_kv, config_.block_q},
                         call_.by_keys, s_.starts_kv, s_.starts_q);
  }

  /// Returns the lists in the main kernel's form: its blocks, of the heads of a group together.
  /// `blocks`: those of a head, whose numbers have `log2_blocks` bits.
  BlockListSlots merged_lists(std::int64_t blocks, i32 log2_blocks) {
    const BlockListSlots lists = lists_by_head();
    if (!is_given(lists.blocks)) return {};
    const Dims of = plan_.tensor(lists.blocks).shape();
    const std::int64_t kv_heads = K_.size(1);
    if (!call_.blocks && of[1] == kv_heads) return lists;
    const std::int64_t parts = call_.blocks ? call_.blocks->block_q / config_.block_q : 1,
                       entries = of[3] * parts * (of[1] / kv_heads);
    const Dims rows{of[0], kv_heads, of[2]};
    // Derived lists of packed sequences share a row of columns (group_window).
    const PlanSlot starts = call_.blocks ? PlanSlot() : s_.starts_q,
                   numbers = plan_.scratch({is_given(starts) ? 1 : of[0], kv_heads, of[2], entries},
                                           DType::i32),
                   counts = plan_.scratch(rows, DType::i32), full = plan_.scratch(rows, DType::i32);
    plan_.launch(all_.groups_, lists.blocks, lists.counts, lists.full, numbers, counts, full,
                 !call_.blocks, config_.block_q, static_cast<i32>(parts), static_cast<i32>(blocks),
                 log2_blocks, starts);
    return {plan_.broadcast_to(numbers, {of[0], kv_heads, of[2], entries}), counts, full, {}};
  }

  BackwardTiles tiles_of(const AttentionBackwardConfig& config, bool of_queries = false) const {
    const bool uses_tma = all_.facts_->schedule.tma_aux_loads && config.store_columns == 0;
    // Larger elements, read for each pair, leave no room for two slots at head dim 128.
    constexpr int kMaxBytesOfPair = 4;
    const int bytes = uses_tma ? all_.facts_->score.tma_bytes_per_element : 0;
    return {.block_q = config.block_q,
            .block_kv = config.block_kv,
            .stages = config.stages,
            .store_columns = config.store_columns,
            .tma_aux_loads = bytes > 0 && bytes <= kMaxBytesOfPair,
            .heads_last = config.heads_last,
            .of_queries = of_queries,
            .lists_by_sequence = !of_queries && is_packed() && call_.blocks};
  }

  void launch(const MainArguments& x, const BackwardTiles& tiles, bool has_captured) {
    const CapturedSelection selected = has_captured ? call_.captured : CapturedSelection();
    const CapturedSlots captured = has_captured ? captured_ : CapturedSlots();
    const BackwardKernel<T> kernel(kernels_.main.of({tiles, selected}, [&] {
      return backward_kernel<T>({all_.facts_, tiles.of_queries ? all_.of_queries_ : all_.of_keys_,
                                 tiles, all_.captures_, selected})
          .shared_instance();
    }));
    kernels_.latest = kernel.shared_instance().get();
    const bool is_grouped = Q_.size(1) != K_.size(1);
    const auto with_views = [&](const auto&... views) {
      plan_.launch(kernel, x.Q, x.K, x.V, x.dO, L_, D_, x.dQ, x.dK, x.dV, scale_, is_grouped,
                   x.log2_blocks, x.lists.blocks, x.lists.counts, x.lists.full, x.starts_q,
                   x.starts_kv, views...);
    };
    std::apply(with_views, std::tuple_cat(captured.f32s, captured.pairs));
  }

  /// Computes dQ by a loop over keys for each tile of queries, in a fixed order.
  void add_queries() {
    const BackwardTiles tiles = tiles_of(config(true), true);
    const BlockListSlots lists =
        derived_lists(all_.of_queries_, Q_, K_, {tiles.block_kv, tiles.block_q}, call_.by_queries,
                      s_.starts_q, s_.starts_kv);
    launch({whole_K_, whole_Q_, s_.dO, whole_V_, {}, s_.dQ, {}, s_.starts_kv, s_.starts_q, lists},
           tiles, false);
  }

  /// Computes the other gradients, and dQ by additions to `sums_`, by a loop over queries for each
  /// tile of keys.
  void add_keys() {
    const bool has_dK = is_given(s_.dK) || is_given(sums_) || call_.captured.any();
    if (!has_dK && !is_given(s_.dV)) return;
    const std::int64_t blocks = plan_.tensor(L_).size(2) / config_.block_q;
    const i32 log2_blocks = static_cast<i32>(std::bit_width(static_cast<std::uint64_t>(blocks)));
    const MainArguments x{
        whole_Q_,   whole_K_, s_.V,        whole_dO_,    sums_by_block(),
        s_.dK,      s_.dV,    s_.starts_q, s_.starts_kv, merged_lists(blocks, log2_blocks),
        log2_blocks};
    const BackwardTiles tiles = tiles_of(config_);
    if (config_.launches == 1) return launch(x, tiles, true);
    MainArguments of_V = x, of_K = x;
    of_V.dQ = of_V.dK = of_K.dV = {};
    // Without dQ there is shared memory for twice the queries. Lists have blocks of one size, and
    // groups of heads and scores need more registers.
    const bool is_plain = Q_.size(1) == K_.size(1) && !spec_.score,
               has_room = !is_given(x.lists.blocks) && (V_.size(3) <= 192 || is_plain);
    AttentionBackwardConfig config_of_V = config_;
    if (has_room) config_of_V.block_q = kGradientRows;
    if (is_given(s_.dV)) launch(of_V, tiles_of(config_of_V), false);
    if (has_dK) launch(of_K, tiles, true);
  }

  const AttentionBackward& all_;
  const AttentionSpec& spec_;
  const BackwardKernels<T>& kernels_;
  PlanBuilder& plan_;
  BackwardCall call_;
  BackwardSlots s_;
  const Tensor Q_, K_, V_;
  float scale_;
  AttentionBackwardConfig config_;
  PlanSlot L_, D_, sums_, partial_;                  ///< GradientRows
  PlanSlot whole_Q_, whole_K_, whole_V_, whole_dO_;  ///< packed sequences: copies in whole tiles
  CapturedSlots captured_;
};

AttentionBackward::AttentionBackward(std::shared_ptr<const AttentionHeuristics> facts)
    : facts_(std::move(facts)),
      captures_(std::make_shared<const ScoreCaptures>(facts_)),
      of_queries_(block_mask(facts_->spec.mask, BlockListRows::queries)),
      of_keys_(block_mask(facts_->spec.mask, BlockListRows::keys)) {
  const AttentionSpec& spec = facts_->spec;
  if (spec.weighting == AttentionNormalization::stick_breaking)
    refuse_backward("weighting", "stick_breaking", "softmax or none");
  if (spec.kv_range && !spec.mask)
    refuse_backward("kv_range", "given without a mask", "with a mask that keeps the same keys");
  if (facts_->numerics.deterministic && spec.blocks)
    refuse_backward("deterministic", "set for a specification with blocks",
                    "a mask that keeps the same keys");
}

void AttentionBackward::call(const Stream& stream, const Tensor& Q, const Tensor& K,
                             const Tensor& V, const AttentionSaved& saved,
                             const AttentionGradients& of, const AttentionInputGradients& into,
                             const CuSeqlens* lengths) const {
  static const BlockList kNoList;
  static const Tensor kNone;
  const BlockList& list = saved.blocks ? *saved.blocks : kNoList;
  const CuSeqlens starts = lengths ? *lengths : CuSeqlens();
  const CapturedSelection selected = captures_->select(into.captured);
  const auto own = tensor_args(Q, K, V, saved.O, saved.lse, saved.sinks, of.O, of.lse, into.Q,
                               into.K, into.V, into.sinks, starts.q, starts.kv, list.kv_indices,
                               list.kv_num_blocks, list.full_kv_num_blocks);
  std::array<tegula::detail::HostArg, own.size() + kMaxCaptured> args;
  std::ranges::copy(own, args.begin());
  for (std::size_t i = 0; i < kMaxCaptured; ++i)
    args[own.size() + i] = tensor_args(i < into.captured.size() ? into.captured[i].into : kNone)[0];
  // Lists need a bound of the keys of a sequence.
  const bool is_self = starts.q.defined() && starts.q.data() == starts.kv.data();
  const PlanOptions own_options{lengths != nullptr,       starts.max_seqlen_q, is_self,
                                saved.blocks.has_value(), list.block_q,        list.block_kv};
  std::array<std::uint64_t, 6 + kMaxCaptured> options;
  std::ranges::copy(std::span<const std::uint64_t>(own_options), options.begin());
  std::ranges::copy(selected.captures, options.end() - kMaxCaptured);
  plans_.call(stream, args, options, [&](PlanBuilder& plan) {
    BackwardCall call{saved.blocks, selected};  // a tuner builds plans in several threads
    check_call(facts_->spec, Q, K, V, saved, of, into, lengths);
    if (!lengths) call.listed_keys = K.size(2);
    if (lengths) {
      call.sequences = lengths->q.size(0) - 1;
      const std::int64_t longest = is_self ? lengths->max_seqlen_q : K.size(0);
      call.by_keys = {lengths->kv, lengths->q, std::min(longest, K.size(0))};
      call.by_queries = {lengths->q, lengths->kv, std::min(lengths->max_seqlen_q, Q.size(0))};
      if (is_self) call.listed_keys = call.by_keys.max_seqlen_q;
    } else if (facts_->spec.align_bottom_right) {
      require_keys_for_queries(Q, K);
    }
    Q.dtype() == DType::f16 ? BackwardPlan<f16>(*this, of_f16_, plan, call).add()
                            : BackwardPlan<bf16>(*this, of_bf16_, plan, call).add();
  });
}

std::string AttentionBackward::explain(DType dtype) const {
  dsl::KernelInstance* const latest =
      dtype == DType::f16 ? of_f16_.latest.load() : of_bf16_.latest.load();
  if (!latest) return {};
  return "backward: " + tegula::detail::explain(*latest) + "queries visited: " +
         (of_keys_ ? of_keys_->text() + "\n" + of_keys_->explain() : "all, without a mask\n");
}

}  // namespace tegula::kernels
