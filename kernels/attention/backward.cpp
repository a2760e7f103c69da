#include "kernels/attention/backward.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "kernels/argument_error.h"
#include "kernels/attention/arguments.h"
#include "kernels/attention/backward_kernel.h"
#include "kernels/attention/gradient_rows.h"
#include "kernels/attention/query_traversal.h"
#include "tegula/configured_kernel.h"
#include "tegula/int_math.h"
#include "tegula/prepare.h"

namespace tegula::kernels {
namespace {

/// Largest head dim, of keys or values, for which tiles exist.
constexpr std::int64_t kMaxBackwardDim = 128;

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
  kGradSinks
};

void check_call(AttentionNormalization weighting, const Tensor& Q, const Tensor& K, const Tensor& V,
                const AttentionSaved& saved, const AttentionGradients& of,
                const AttentionInputGradients& into) {
  dense_call(Q, K, V, saved.O, {.lse = saved.lse, .sinks = saved.sinks});
  const Dims rows{Q.size(0), Q.size(1), Q.size(2)}, heads{Q.size(1)};
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
  for (const auto& [name, n] :
       {std::pair{"the head dim of Q", Q.size(3)}, {"the head dim of V", V.size(3)}})
    if (n > kMaxBackwardDim)
      throw_argument_error(ErrorId::kernel_argument, kBackwardName, name, std::to_string(n),
                           "at most 128: tiles for larger ones are not built");
}

/// Throws for specifications whose gradients are not built.
void check_differentiable(const AttentionSpec& spec) {
  const auto refuse = [](const char* what, const char* is, const char* instead) {
    throw_argument_error(ErrorId::kernel_argument, kBackwardName, what, is, instead);
  };
  if (spec.weighting == AttentionNormalization::stick_breaking)
    refuse("weighting", "stick_breaking", "softmax or none");
  if (spec.blocks)
    refuse("blocks", "given", "none: the mask alone, from which the blocks are derived");
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
  KernelOf<ForwardResults<T>, GradientRows, SinkGradients> rows = gradient_rows<T>();
  KernelOf<In<f32, 4>, Out<T, 4>, Scalar<f32>> query_gradients = kernels::query_gradients<T>();
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

  template <class T>
  void build(PlanBuilder& plan) const {
    const auto tensor = [&](BackwardArgument a) -> const Tensor& {
      return plan.tensor(plan.argument(a));
    };
    const Tensor &Q = tensor(kOfQ), &K = tensor(kOfK);
    const std::int64_t length = Q.size(2), queries = Q.size(0) * Q.size(1) * length;
    // Slots by measurement: docs/experiments/2026-11-29-attention-backward.md.
    const bool is_wide = std::max(Q.size(3), tensor(kOfV).size(3)) > 64;
    const BackwardTiles tiles{.stages = is_wide ? 2 : 4};
    const float scale = spec->scale.value_or(1.0f / std::sqrt(static_cast<float>(Q.size(3))));
    const auto& kernels = of<T>();
    if (queries == 0) {
      static const auto* const zero = new auto(zero_gradients<T>());
      for (const BackwardArgument a : {kGradK, kGradV})
        if (tensor(a).defined() && tensor(a).numel() > 0) plan.launch(*zero, plan.argument(a));
    }
    const std::int64_t padded = ceil_div<std::int64_t>(length, tiles.block_q) * tiles.block_q;
    const Dims rows{Q.size(0), Q.size(1), padded};
    const PlanSlot L = plan.scratch(rows, DType::f32), D = plan.scratch(rows, DType::f32);
    PlanSlot dQ, partial;
    if (tensor(kGradQ).defined())
      dQ = plan.scratch(
          {rows[0], rows[1], padded / kGradientRows, kGradientRows * backward_columns(Q.size(3))},
          DType::f32);
    if (tensor(kGradSinks).defined())
      partial = plan.scratch({rows[0], rows[1], padded / kGradientRows}, DType::f32);
    if (queries > 0)
      plan.launch(kernels.rows, plan.argument(kOfO), plan.argument(kGradO), plan.argument(kOfLse),
                  plan.argument(kGradLse), L, D, dQ, plan.argument(kOfSinks), partial);
    if (queries > 0 && K.size(2) > 0) launch_main<T>(plan, tiles, scale, L, D, dQ);
    if (queries > 0 && tensor(kGradQ).defined())
      plan.launch(kernels.query_gradients, dQ, plan.argument(kGradQ), scale);
    if (tensor(kGradSinks).defined() && Q.size(1) > 0)
      plan.launch(sinks, partial, plan.argument(kGradSinks));
  }

  /// Returns true if lists are made by evaluating a mask that is not solved.
  bool evaluates_mask(const PlanBuilder& plan) const {
    const auto tensor = [&](BackwardArgument a) { return plan.tensor(plan.argument(a)); };
    return traversal->is_unsolved() && facts->evaluation_pays({.Q = tensor(kOfQ),
                                                               .K = tensor(kOfK),
                                                               .V = tensor(kOfV),
                                                               .O = tensor(kOfO),
                                                               .extras = {},
                                                               .lengths = {}});
  }

  template <class T>
  void launch_main(PlanBuilder& plan, const BackwardTiles& tiles, float scale, PlanSlot L,
                   PlanSlot D, PlanSlot dQ) const {
    const Tensor &Q = plan.tensor(plan.argument(kOfQ)), &K = plan.tensor(plan.argument(kOfK));
    BlockListSlots lists;
    // Lists do not know about shifted positions; without one, all blocks are visited.
    const bool is_shifted = spec->align_bottom_right && Q.size(2) != K.size(2);
    if (!is_shifted && (traversal->uses_block_list() || evaluates_mask(plan))) {
      const Tensor by_head =
          described({Q.size(0), Q.size(1), K.size(2), K.size(3)}, K.dtype(), K.device());
      lists = traversal->lists(plan, by_head, Q, {tiles.block_kv, tiles.block_q})
                  .value_or(BlockListSlots{});
    }
    const auto& kernels = of<T>();
    const BackwardKernel<T> kernel(kernels.main.of(
        tiles, [&] { return backward_kernel<T>(spec, traversal, tiles).shared_instance(); }));
    kernels.latest = kernel.shared_instance().get();
    plan.launch(kernel, plan.argument(kOfQ), plan.argument(kOfK), plan.argument(kOfV),
                plan.argument(kGradO), L, D, dQ, plan.argument(kGradK), plan.argument(kGradV),
                scale, Q.size(1) != K.size(1), lists.blocks, lists.counts, lists.full);
  }

  std::shared_ptr<const AttentionHeuristics> facts;
  std::shared_ptr<const AttentionSpec> spec;
  std::shared_ptr<const QueryTraversal> traversal;
  AttentionBackwardKernels<bf16> of_bf16;
  AttentionBackwardKernels<f16> of_f16;
  KernelOf<In<f32, 3>, Out<f32, 1>> sinks = sink_gradients();
  CallPlans plans{StrideKey::exact};
};

AttentionBackward::AttentionBackward(std::shared_ptr<const AttentionHeuristics> facts) {
  check_differentiable(facts->spec);
  kernels_ = std::make_unique<Kernels>(std::move(facts));
}
AttentionBackward::~AttentionBackward() = default;

void AttentionBackward::call(const Stream& stream, const Tensor& Q, const Tensor& K,
                             const Tensor& V, const AttentionSaved& saved,
                             const AttentionGradients& of,
                             const AttentionInputGradients& into) const {
  const auto args = tensor_args(Q, K, V, saved.O, saved.lse, saved.sinks, of.O, of.lse, into.Q,
                                into.K, into.V, into.sinks);
  kernels_->plans.call(stream, args, {}, [&](PlanBuilder& plan) {
    check_call(kernels_->spec->weighting, Q, K, V, saved, of, into);
    if (kernels_->spec->align_bottom_right) require_keys_for_queries(Q, K);
    Q.dtype() == DType::f16 ? kernels_->build<f16>(plan) : kernels_->build<bf16>(plan);
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
