// Mixture-of-experts layers: launches of routing and of the forward pass.
#include "tegula/kernels/moe.h"

#include "kernels/argument_error.h"
#include "kernels/moe/layer_kernels.h"
#include "tegula/kernels/call_place.h"
#include "tegula/row_config.h"

namespace tegula::kernels {
namespace {

using namespace experts;

/// Indices of the arguments in the plan of the forward pass.
enum ForwardArgument : std::size_t {
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
  kHidden,
  kUpScales,
  kDownScales,
  kInputScale,
  kHiddenScale
};

/// Number of tokens that the configuration of the router's GEMM is chosen for if it must not depend
/// on the batch.
constexpr std::int64_t kInvariantTokens = 1024;

/// Returns the caller's tensor, or scratch memory if it is undefined.
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

/// X router^T in one launch: of the configuration's split-K, only cluster split-K is used.
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

/// Combines the rows of the experts' results. Weights already applied to inputs are ignored.
template <class T>
void plan_combine(PlanBuilder& plan, const RoutingSlots& r, const ExpertKernels<T>& kernels,
                  const MoeOptions& options, PlanSlot rows) {
  plan.launch(kernels.combine, rows, r.row_of, options.scales_inputs ? PlanSlot{} : r.weights,
              plan.argument(kY));
}

/// Slots that the plans of plain and quantised experts share.
struct ExpertSlots {
  ExpertSlots(PlanBuilder& plan, const RoutingSlots& r, const LayerTiles& of,
              const MoeOptions& options)
      : X(plan.argument(kX)),
        down(plan.argument(kDown)),
        weights(gate_and_up(plan, plan.argument(kUp), 1, options)),
        bias(gate_and_up(plan, plan.argument(kUpBias), 1, options)),
        h(plan.tensor(X).size(1)),
        i(plan.tensor(down).size(2)),
        rows(plan.tensor(r.slot_of).size(0)),
        tiles(of),
        up_rows(segments_of(plan, r, kUpTable)),
        down_rows(segments_of(plan, r, kDownTable)) {}

  PlanSlot X, down;
  GateAndUp weights, bias;
  std::int64_t h, i, rows;
  LayerTiles tiles;
  SegmentSlots up_rows, down_rows;
};

template <class T>
void plan_experts(PlanBuilder& plan, const RoutingSlots& r, const LayerTiles& tiles,
                  const ExpertKernels<T>& kernels, const MoeOptions& options) {
  const ExpertSlots s(plan, r, tiles, options);
  const auto of_rows = [&](std::int64_t columns) {
    return plan.scratch({s.rows, columns}, dtype_of<T>);
  };
  const bool gathers = s.tiles.up.gathers;
  const PlanSlot P = gathers ? s.X : of_rows(s.h), A = of_rows(s.i), Y = of_rows(s.h);
  if (!gathers)
    plan.launch(kernels.permute, s.X, r.row_of, options.scales_inputs ? r.weights : PlanSlot{}, P);
  plan.launch(kernels.forward.up.of(s.tiles.up), P, gathers ? r.slot_of : PlanSlot{},
              choices_per_token(options), s.weights.gate, s.weights.up, s.bias.gate, s.bias.up,
              s.up_rows.offsets, s.up_rows.first_tiles, A, plan.argument(kHidden));
  plan.launch(kernels.forward.down.of(s.tiles.down), A, s.down, plan.argument(kDownBias),
              s.down_rows.offsets, s.down_rows.first_tiles, Y);
  plan_combine(plan, r, kernels, options, Y);
}

/// Returns the scales per output [experts, n]; scales per expert are broadcast.
PlanSlot output_scales(PlanBuilder& plan, PlanSlot scales, std::int64_t n) {
  if (plan.tensor(scales).rank() == 2) return scales;
  return plan.view(scales, [n](const Tensor& t) {
    return t.reshape({t.size(0), 1}).broadcast_to({t.size(0), n});
  });
}

/// 8-bit experts. With a scale per row, activations are stored as T and quantised when their rows
/// are complete; with a given scale, the up projection stores them in 8 bits.
template <class T>
void plan_quantised_experts(PlanBuilder& plan, const RoutingSlots& r, const LayerTiles& tiles,
                            const ExpertKernels<T>& all, const MoeOptions& options) {
  const QuantisedKernels<T>& kernels = all.quantised;
  const ExpertSlots s(plan, r, tiles, options);
  const bool by_row = options.quantisation->scaling == ExpertScaling::row;
  const auto of_rows = [&](std::int64_t columns, DType dtype) {
    return plan.scratch({s.rows, columns}, dtype);
  };
  const auto scales_of_rows = [&] { return plan.scratch({s.rows}, DType::f32); };
  const PlanSlot P = of_rows(s.h, DType::f8e4m3), A = of_rows(s.i, DType::f8e4m3),
                 Y = of_rows(s.h, dtype_of<T>), of_P = scales_of_rows();
  plan.launch(kernels.permute, s.X, r.row_of, options.scales_inputs ? r.weights : PlanSlot{},
              plan.argument(kInputScale), P, of_P);
  const std::int64_t outputs = plan.tensor(plan.argument(kUp)).size(1);
  const GateAndUp scales =
      gate_and_up(plan, output_scales(plan, plan.argument(kUpScales), outputs), 1, options);
  const PlanSlot of_up = options.activation.is_gated ? scales.up : scales.gate,
                 hidden = plan.argument(kHiddenScale);
  const auto up = [&](const auto& kernel, PlanSlot result) {
    plan.launch(kernel, P, PlanSlot{}, 1, s.weights.gate, s.weights.up, s.bias.gate, s.bias.up,
                s.up_rows.offsets, s.up_rows.first_tiles, result, PlanSlot{}, of_P, scales.gate,
                of_up, hidden);
  };
  PlanSlot of_A;
  if (by_row) {
    const PlanSlot activations = of_rows(s.i, dtype_of<T>);
    of_A = scales_of_rows();
    up(kernels.up.of(s.tiles.up), activations);
    plan.launch(kernels.quantise, activations, A, of_A, rows_per_tile(s.i));
  } else {
    of_A = plan.view(hidden, [rows = s.rows](const Tensor& t) { return t.broadcast_to({rows}); });
    up(kernels.up_to_8_bits.of(s.tiles.up), A);
  }
  plan.launch(kernels.down.of(s.tiles.down), A, s.down, plan.argument(kDownBias),
              s.down_rows.offsets, s.down_rows.first_tiles, Y, of_A,
              output_scales(plan, plan.argument(kDownScales), s.h));
  plan_combine(plan, r, all, options, Y);
}

void run_forward(const Moe::Kernels& k, const Stream& stream, const LayerCall& c) {
  const MoeOptions& options = k.options;
  check_call(options, c);
  if (c.tokens() == 0 && !c.saved.hidden.defined()) return;
  const MoeWeights& w = c.weights;
  const MoeRouting& r = c.saved.routing;
  const auto args =
      tensor_args(c.X, c.logits, w.router, w.router_bias, w.up, w.up_bias, w.down, w.down_bias, c.Y,
                  r.ids, r.weights, r.row_of, r.slot_of, r.offsets, r.first_tiles, c.saved.hidden,
                  w.scales.up, w.scales.down, w.scales.input, w.scales.hidden);
  k.forward_plans.call(stream, args, {}, [&](PlanBuilder& plan) {
    k.with_type(c.X.dtype(), [&](const auto& kernels) {
      const PlanSlot logits = plan_logits(plan, kernels.forward, options);
      const RoutingSlots slots = routing_slots(plan, options, c.tokens());
      const LayerTiles tiles = tiles_of_layer(plan, options, rows_of_experts(options, c.tokens()),
                                              c.hidden(), w.down.size(2), w.down.dtype());
      k.routing.plan(plan,
                     {logits,
                      plan.argument(kRouterBias),
                      capacity_of(options, c.tokens()),
                      {tiles.up.bm, tiles.down.bm}},
                     slots);
      options.quantisation ? plan_quantised_experts(plan, slots, tiles, kernels, options)
                           : plan_experts(plan, slots, tiles, kernels, options);
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

MoeRouting Moe::make_routing(std::int64_t tokens, Device device, Loc at) const {
  const detail::CallPlace here(at);
  const RoutingShapes s(kernels_->options, tokens);
  const auto integers = [&](const Dims& shape) { return Tensor::empty(shape, DType::i32, device); };
  return {integers(s.choices), Tensor::empty(s.choices, DType::f32, device),
          integers(s.choices), integers(s.rows),
          integers(s.offsets), integers(s.first_tiles)};
}

MoeSaved Moe::make_saved(const Tensor& X, const MoeWeights& weights, Loc at) const {
  const detail::CallPlace here(at);
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
    kernels_->routing.plan(plan, {of(0), of(1), capacity_of(options, logits.size(0))},
                           {of(2), of(3), of(4), of(5), of(6), of(7)});
  });
}

const MoeOptions& Moe::options() const { return kernels_->options; }

std::string Moe::explain(DType dtype, Loc at) const {
  const detail::CallPlace here(at);
  const auto all = [](const auto&) { return true; };
  std::string text;
  kernels_->with_type(dtype, [&](const auto& kernels) {
    const auto& q = kernels.quantised;
    const std::optional<ExpertQuantisation>& by = kernels_->options.quantisation;
    if (!by)
      text = kernels.forward.up.explain(all) + kernels.forward.down.explain(all);
    else if (by->scaling == ExpertScaling::row)
      text = q.up.explain(all) + q.down.explain(all);
    else
      text = q.up_to_8_bits.explain(all) + q.down.explain(all);
  });
  return text;
}

}  // namespace tegula::kernels
