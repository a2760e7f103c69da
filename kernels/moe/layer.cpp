// Layers of a mixture of experts: what routing and forward launch.
#include "tegula/kernels/moe.h"

#include "kernels/argument_error.h"
#include "kernels/moe/layer_kernels.h"
#include "tegula/kernels/call_place.h"

namespace tegula {
namespace {

using namespace experts;

/// Places of the arguments in the plan of forward.
enum Argument : std::size_t {
  kX,
  kLogits,
  kRouter,
  kRouterBias,
  kUp,
  kUpBias,
  kDown,
  kDownBias,
  kY,
  kIds,
  kWeights,
  kRowOf,
  kSlotOf,
  kOffsets,
  kFirstTiles,
  kHidden
};

/// The problem that configurations are chosen for if they may not depend on the batch: tokens of a
/// product with the router's weights, rows of an expert.
constexpr std::int64_t kInvariantTokens = 1024, kInvariantRows = 64;

/// A tensor of the caller, or memory of the call where he gives none.
PlanSlot given_or_scratch(PlanBuilder& plan, std::size_t argument, const Dims& shape,
                          DType dtype = DType::i32) {
  const PlanSlot given = plan.argument(argument);
  return plan.tensor(given).defined() ? given : plan.scratch(shape, dtype);
}

RoutingSlots routing_slots(PlanBuilder& plan, const MoeOptions& options, std::int64_t tokens) {
  const RoutingShapes s(options, tokens);
  return {given_or_scratch(plan, kIds, s.choices),
          given_or_scratch(plan, kWeights, s.choices, DType::f32),
          given_or_scratch(plan, kRowOf, s.choices),
          given_or_scratch(plan, kSlotOf, s.rows),
          given_or_scratch(plan, kOffsets, s.offsets),
          given_or_scratch(plan, kFirstTiles, s.first_tiles)};
}

/// X router^T in one launch: of a configuration that would split k into two, the whole.
template <class T>
PlanSlot plan_logits(PlanBuilder& plan, const ForwardKernels<T>& kernels,
                     const MoeOptions& options) {
  const PlanSlot X = plan.argument(kX), logits = plan.argument(kLogits);
  if (plan.tensor(logits).defined()) return logits;
  const PlanSlot made = plan.scratch({plan.tensor(X).size(0), options.experts}, DType::f32);
  const PlanSlot router =
      plan.view(plan.argument(kRouter), [](const Tensor& t) { return t.transpose(0, 1); });
  const MatmulOptions exact;
  MatmulProblem problem =
      detail::matmul_problem(plan.tensor(X), plan.tensor(router), plan.tensor(made), exact);
  if (options.is_batch_invariant) problem.m = kInvariantTokens;
  const MatmulConfig config = choose_matmul(problem, plan.device(), "moe_logits");
  const int programs = config.split == SplitK::cluster ? config.parts : 1;
  plan.launch(kernels.logits.of({config, exact, programs, false}), X, router, made);
  return made;
}

template <class T>
void plan_experts(PlanBuilder& plan, const RoutingSlots& r, const ExpertKernels<T>& kernels,
                  const MoeOptions& options) {
  const PlanSlot X = plan.argument(kX), down = plan.argument(kDown);
  const std::int64_t h = plan.tensor(X).size(1), i = plan.tensor(down).size(2),
                     rows = plan.tensor(r.slot_of).size(0),
                     mean =
                         options.is_batch_invariant ? kInvariantRows : rows / all_experts(options);
  const auto of_rows = [&](std::int64_t columns) {
    return plan.scratch({rows, columns}, dtype_of<T>);
  };
  const PlanSlot P = of_rows(h), A = of_rows(i), Y = of_rows(h);
  const bool scales = options.scales_inputs, is_gated = options.activation.is_gated;
  plan.launch(kernels.permute, X, r.row_of, scales ? r.weights : PlanSlot{}, P);
  const GateAndUp w = gate_and_up(plan, plan.argument(kUp), 1, options),
                  bias = gate_and_up(plan, plan.argument(kUpBias), 1, options);
  const MoeTiles& given = options.tiles;
  const auto tiles_of = [&](const std::optional<ExpertTileConfig>& tiles, const ExpertProblem& p) {
    return tiles ? *tiles : choose_expert_tiles(p, plan.device());
  };
  const std::int64_t experts = all_experts(options);
  const ExpertTileConfig up_tiles = tiles_of(given.up, {mean, i, h, experts, ExpertProduct::up,
                                                        dtype_of<T>, is_gated}),
                         down_tiles = tiles_of(
                             given.down, {mean, h, i, experts, ExpertProduct::down, dtype_of<T>});
  const SegmentSlots up_rows = segments_of(plan, r, up_tiles.bm),
                     down_rows = segments_of(plan, r, down_tiles.bm);
  plan.launch(kernels.forward.up.of(up_tiles), P, w.gate, w.up, bias.gate, bias.up, up_rows.offsets,
              up_rows.first_tiles, A, plan.argument(kHidden));
  plan.launch(kernels.forward.down.of(down_tiles), A, down, plan.argument(kDownBias),
              down_rows.offsets, down_rows.first_tiles, Y);
  plan.launch(kernels.combine, Y, r.row_of, scales ? PlanSlot{} : r.weights, plan.argument(kY));
}

void run_forward(const Moe::Kernels& k, const Stream& stream, const LayerCall& c) {
  const MoeOptions& options = k.options;
  check_call(options, c);
  if (c.tokens() == 0 && !c.saved.hidden.defined()) return;
  const MoeWeights& w = c.weights;
  const MoeRouting& r = c.saved.routing;
  const auto args =
      tensor_args(c.X, c.logits, w.router, w.router_bias, w.up, w.up_bias, w.down, w.down_bias, c.Y,
                  r.ids, r.weights, r.row_of, r.slot_of, r.offsets, r.first_tiles, c.saved.hidden);
  k.forward_plans.call(stream, args, {}, [&](PlanBuilder& plan) {
    k.with_type(c.X.dtype(), [&](const auto& kernels) {
      const PlanSlot logits = plan_logits(plan, kernels.forward, options);
      const RoutingSlots slots = routing_slots(plan, options, c.tokens());
      k.routing.plan(plan, logits, plan.argument(kRouterBias), capacity_of(options, c.tokens()),
                     slots);
      plan_experts(plan, slots, kernels, options);
    });
  });
}

}  // namespace

Moe::Moe(MoeOptions options, Loc at) {
  const detail::CallPlace here(at);
  options = completed(std::move(options));
  check_options(options);
  kernels_ = std::make_shared<const Kernels>(std::move(options));
}

void Moe::operator()(const Stream& stream, const Tensor& X, const MoeWeights& weights,
                     const Tensor& Y, Loc at) const {
  const detail::CallPlace here(at);
  run_forward(*kernels_, stream, {.X = X, .logits = {}, .Y = Y, .weights = weights, .saved = {}});
}

void Moe::from_logits(const Stream& stream, const Tensor& X, const Tensor& logits,
                      const MoeWeights& weights, const Tensor& Y, const MoeSaved& saved,
                      Loc at) const {
  const detail::CallPlace here(at);
  if (!logits.defined()) throw_argument_error(ErrorId::moe_no_logits);
  MoeWeights others = weights;
  others.router = {};
  run_forward(*kernels_, stream,
              {.X = X, .logits = logits, .Y = Y, .weights = others, .saved = saved});
}

void Moe::from_logits(const Stream& stream, const Tensor& X, const Tensor& logits,
                      const MoeWeights& weights, const Tensor& Y, Loc at) const {
  from_logits(stream, X, logits, weights, Y, MoeSaved{}, at);
}

MoeRouting Moe::make_routing(std::int64_t tokens, Device device) const {
  const RoutingShapes s(kernels_->options, tokens);
  const auto integers = [&](const Dims& shape) { return Tensor::empty(shape, DType::i32, device); };
  return {integers(s.choices), Tensor::empty(s.choices, DType::f32, device),
          integers(s.choices), integers(s.rows),
          integers(s.offsets), integers(s.first_tiles)};
}

MoeSaved Moe::make_saved(const Tensor& X, const MoeWeights& weights) const {
  const std::int64_t tokens = X.size(0), rows = rows_of_experts(kernels_->options, tokens);
  return {make_routing(tokens, X.device()),
          Tensor::empty({rows, weights.up.size(1)}, X.dtype(), X.device())};
}

void Moe::route(const Stream& stream, const Tensor& logits, const Tensor& bias,
                const MoeRouting& out, Loc at) const {
  const detail::CallPlace here(at);
  const MoeOptions& options = kernels_->options;
  check_routing(options, logits, bias, out);
  const auto args = tensor_args(logits, bias, out.ids, out.weights, out.row_of, out.slot_of,
                                out.offsets, out.first_tiles);
  kernels_->routing_plans.call(stream, args, {}, [&](PlanBuilder& plan) {
    const auto of = [&](std::size_t i) { return plan.argument(i); };
    kernels_->routing.plan(plan, of(0), of(1), capacity_of(options, logits.size(0)),
                           {of(2), of(3), of(4), of(5), of(6), of(7)});
  });
}

const MoeOptions& Moe::options() const { return kernels_->options; }

std::string Moe::explain(DType dtype) const {
  const auto all = [](const auto&) { return true; };
  std::string text;
  kernels_->with_type(dtype, [&](const auto& kernels) {
    text = kernels.forward.up.explain(all) + kernels.forward.down.explain(all);
  });
  return text;
}

}  // namespace tegula
