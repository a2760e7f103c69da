// Layers of a mixture of experts: what a call launches.
#include <map>
#include <mutex>

#include "kernels/argument_error.h"
#include "kernels/moe/expert_kernels.h"
#include "kernels/moe/layer_arguments.h"
#include "kernels/moe/routing_kernels.h"
#include "tegula/kernels/call_place.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/kernels/moe.h"

namespace tegula {
namespace {

using namespace experts;

/// Places of the arguments in a plan.
enum Argument : std::size_t {
  kX,
  kLogits,
  kRouter,
  kRouterBias,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
  kY
};

/// Memory of a call that routing fills.
struct RoutingSlots {
  PlanSlot counts, group_counts, bases, offsets, first_tiles, ids, weights, row_of, slot_of;
};

PlacementShape placement_shape(const MoeOptions& o) {
  return {.experts = all_experts(o),
          .k = choices_per_token(o),
          .has_capacity = o.capacity.has_value(),
          .by_slot = o.capacity && o.capacity->by_slot};
}

/// A slice of dimension `dim` of a slot, left out where that is.
PlanSlot slice_of(PlanBuilder& plan, PlanSlot slot, int dim, std::int64_t begin, std::int64_t end,
                  std::int64_t step) {
  if (!plan.tensor(slot).defined()) return slot;
  return plan.view(slot, [=](const Tensor& t) { return t.slice(dim, begin, end, step); });
}

}  // namespace

struct Moe::Kernels {
  explicit Kernels(MoeOptions o)
      : options(std::move(o)),
        shape(placement_shape(options)),
        bf16_experts(options.activation),
        f16_experts(options.activation) {}

  MoeOptions options;
  PlacementShape shape;
  using Route = decltype(kernel("", RouteTokens{}));
  Route route = kernel("moe_route", RouteTokens{options.router, shape, options.shared_experts});
  Route route_and_place = kernel("moe_route_and_place",
                                 RouteTokens{options.router, shape, options.shared_experts, true});
  decltype(kernel("", PlaceTokens{})) place = kernel("moe_place", PlaceTokens{shape});
  ExpertKernels<bf16> bf16_experts;
  ExpertKernels<f16> f16_experts;
  CallPlans plans{StrideKey::exact};

  void run(const Stream& stream, const LayerCall& c) const {
    check_call(options, c);
    if (c.tokens() == 0) return;
    const MoeWeights& w = c.weights;
    const auto args = tensor_args(c.X, c.logits, w.router, w.router_bias, w.up, w.up_bias, w.down,
                                  w.down_bias, c.Y);
    plans.call(stream, args, {}, [&](PlanBuilder& plan) {
      if (plan.tensor(plan.argument(kX)).dtype() == DType::bf16)
        plan_layer(plan, bf16_experts);
      else
        plan_layer(plan, f16_experts);
    });
  }

 private:
  std::int64_t tokens(const PlanBuilder& plan) const {
    return plan.tensor(plan.argument(kX)).size(0);
  }

  /// X router^T in one launch: of a configuration that would split k into two, the whole.
  template <class T>
  PlanSlot plan_logits(PlanBuilder& plan, const ExpertKernels<T>& kernels) const {
    const PlanSlot X = plan.argument(kX), logits = plan.argument(kLogits);
    if (plan.tensor(logits).defined()) return logits;
    const PlanSlot made = plan.scratch({tokens(plan), options.experts}, DType::f32);
    const PlanSlot router =
        plan.view(plan.argument(kRouter), [](const Tensor& t) { return t.transpose(0, 1); });
    const MatmulOptions exact;
    const MatmulProblem problem =
        detail::matmul_problem(plan.tensor(X), plan.tensor(router), plan.tensor(made), exact);
    const MatmulConfig config = choose_matmul(problem, plan.device());
    const int programs = config.split == SplitK::cluster ? config.parts : 1;
    plan.launch(kernels.logits.of({config, exact, programs, false}), X, router, made);
    return made;
  }

  RoutingSlots plan_routing(PlanBuilder& plan, PlanSlot logits) const {
    const std::int64_t count = tokens(plan), k = shape.k,
                       tiles = (count + shape.block - 1) / shape.block,
                       groups = (tiles + kTilesPerGroup - 1) / kTilesPerGroup;
    const auto integers = [&](const Dims& dims) { return plan.scratch(dims, DType::i32); };
    const RoutingSlots r{.counts = integers({tiles, shape.bins()}),
                         .group_counts = integers({groups, shape.bins()}),
                         .bases = integers({shape.bins()}),
                         .offsets = integers({shape.experts + 1}),
                         .first_tiles = integers({kTileRowChoices, shape.experts + 1}),
                         .ids = integers({count, k}),
                         .weights = plan.scratch({count, k}, DType::f32),
                         .row_of = integers({count, k}),
                         .slot_of = integers({count * k})};
    const int capacity = capacity_of(options, count);
    const bool is_one_launch = count * k <= kChoicesInOneLaunch;
    plan.launch(is_one_launch ? route_and_place : route, logits, plan.argument(kRouterBias),
                plan.counters(1 + groups), r.counts, r.group_counts, r.bases, r.offsets,
                r.first_tiles, r.ids, r.weights, r.row_of, r.slot_of, capacity);
    if (!is_one_launch)
      plan.launch(place, r.ids, r.counts, r.group_counts, r.bases, r.offsets, r.first_tiles,
                  r.row_of, r.slot_of, capacity);
    return r;
  }

  template <class T>
  void plan_layer(PlanBuilder& plan, const ExpertKernels<T>& kernels) const {
    plan_experts(plan, plan_routing(plan, plan_logits(plan, kernels)), kernels);
  }

  template <class T>
  void plan_experts(PlanBuilder& plan, const RoutingSlots& r,
                    const ExpertKernels<T>& kernels) const {
    const PlanSlot X = plan.argument(kX), down = plan.argument(kDown);
    const std::int64_t h = plan.tensor(X).size(1), i = plan.tensor(down).size(2),
                       rows = tokens(plan) * shape.k, mean = rows / shape.experts;
    const auto of_rows = [&](std::int64_t columns) {
      return plan.scratch({rows, columns}, dtype_of<T>);
    };
    const PlanSlot P = of_rows(h), A = of_rows(i), Y = of_rows(h);
    const PlanSlot flat =
        plan.view(r.weights, [rows](const Tensor& t) { return t.reshape({rows}); });
    const bool scales = options.scales_inputs;
    plan.launch(kernels.permute, X, r.slot_of, r.offsets, scales ? flat : PlanSlot{}, P, shape.k);
    const auto [gate, up] = halves(plan, kUp, i);
    const auto [gate_bias, up_bias] = halves(plan, kUpBias, i);
    const MoeTiles& given = options.tiles;
    const bool is_gated = options.activation.is_gated;
    plan.launch(kernels.up.of(given.up ? *given.up : choose_tiles(mean, i, is_gated)), P, gate, up,
                gate_bias, up_bias, r.offsets, r.first_tiles, A, PlanSlot{});
    plan.launch(kernels.down.of(given.down ? *given.down : choose_tiles(mean, h, false)), A, down,
                plan.argument(kDownBias), r.offsets, r.first_tiles, Y);
    plan.launch(kernels.combine, Y, r.row_of, scales ? PlanSlot{} : r.weights, plan.argument(kY));
  }

  /// Gate and up of a tensor [experts, outputs, ..]; no up without a gate.
  std::pair<PlanSlot, PlanSlot> halves(PlanBuilder& plan, Argument which, std::int64_t i) const {
    const PlanSlot all = plan.argument(which);
    if (!options.activation.is_gated) return {all, PlanSlot{}};
    if (options.is_interleaved)
      return {slice_of(plan, all, 1, 0, 2 * i, 2), slice_of(plan, all, 1, 1, 2 * i, 2)};
    return {slice_of(plan, all, 1, 0, i, 1), slice_of(plan, all, 1, i, 2 * i, 1)};
  }
};

Moe::Moe(MoeOptions options, Loc at) {
  const detail::CallPlace here(at);
  check_options(options);
  kernels_ = std::make_shared<const Kernels>(std::move(options));
}

void Moe::operator()(const Stream& stream, const Tensor& X, const MoeWeights& weights,
                     const Tensor& Y, Loc at) const {
  const detail::CallPlace here(at);
  kernels_->run(stream, {.X = X, .logits = {}, .Y = Y, .weights = weights});
}

void Moe::from_logits(const Stream& stream, const Tensor& X, const Tensor& logits,
                      const MoeWeights& weights, const Tensor& Y, Loc at) const {
  const detail::CallPlace here(at);
  if (!logits.defined()) throw_argument_error(ErrorId::moe_no_logits);
  MoeWeights others = weights;
  others.router = {};
  kernels_->run(stream, {.X = X, .logits = logits, .Y = Y, .weights = others});
}

std::string Moe::explain(DType dtype) const {
  const auto all = [](const auto&) { return true; };
  const auto of = [&](const auto& experts) {
    return experts.up.explain(all) + experts.down.explain(all);
  };
  return dtype == DType::bf16 ? of(kernels_->bf16_experts) : of(kernels_->f16_experts);
}

}  // namespace tegula
