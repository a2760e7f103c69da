// Launches of the backward pass of a layer.
#include <algorithm>

#include "kernels/argument_error.h"
#include "kernels/moe/layer_kernels.h"
#include "tegula/expert_gradient_config.h"
#include "tegula/kernels/call_place.h"

namespace tegula::kernels {
namespace {

using namespace experts;

using LogitGradientKernel = decltype(kernel("", LogitGradient{}));

/// Builds the plan of the backward pass of one call.
template <class T>
class BackwardPlan {
 public:
  BackwardPlan(PlanBuilder& plan, const MoeOptions& options, const ExpertKernels<T>& kernels,
               bool adds)
      : plan_(plan),
        options_(options),
        kernels_(kernels),
        adds_(adds),
        h_(tensor(kX).size(1)),
        i_(tensor(kDown).size(2)),
        rows_(tensor(kSlotOf).size(0)),
        aligned_rows_(rows_ +
                      (kAlignedRows - 1) * std::min<std::int64_t>(rows_, all_experts(options))) {
    weights_ = options.scales_inputs ? PlanSlot{} : flat(plan, at(kWeights));
  }

  void build(const LogitGradientKernel& logit_gradient) {
    permute();
    hidden_gradient();
    row_gradient();
    weight_gradients();
    bias_gradients();
    choice_gradient(logit_gradient);
  }

 private:
  /// Indices of the arguments in the plan of the backward pass.
  enum Argument : std::size_t {
    kX,
    kLogits,
    kRouterBias,
    kUp,
    kDown,
    kDownBias,
    kDY,
    kIds,
    kWeights,
    kRowOf,
    kSlotOf,
    kOffsets,
    kFirstTiles,
    kHidden,
    kDX,
    kDLogits,
    kDWeights,
    kDUp,
    kDUpBias,
    kDDown,
    kDDownBias
  };

  PlanSlot at(Argument a) const { return plan_.argument(a); }
  const Tensor& tensor(Argument a) const { return plan_.tensor(at(a)); }
  bool is_given(Argument a) const { return tensor(a).defined(); }
  PlanSlot of_aligned(std::int64_t columns) {
    return plan_.scratch({aligned_rows_, columns}, dtype_of<T>);
  }
  SegmentSlots segments(int rows) {
    const RoutingSlots r{{}, {}, {}, {}, at(kOffsets), at(kFirstTiles)};
    return segments_of(plan_, r, gradient_table(rows));
  }
  /// Returns the tiles of an expert's GEMM [m, k] by [k, n].
  ExpertTileConfig tiles_of(ExpertGradient gradient, std::int64_t m, std::int64_t n,
                            std::int64_t k) const {
    return choose_gradient_tiles({m, n, k, all_experts(options_), gradient, dtype_of<T>},
                                 plan_.device());
  }
  /// Returns the mean number of rows per expert.
  std::int64_t mean_rows() const { return rows_ / all_experts(options_); }

  void permute() {
    const auto [offsets, first_tiles] = aligned_ = segments(kAlignedRows);
    P_ = of_aligned(h_), dY_ = of_aligned(h_);
    plan_.launch(kernels_.backward.permute, at(kX), at(kDY), at(kRowOf), at(kIds), offsets,
                 first_tiles, options_.scales_inputs ? at(kWeights) : PlanSlot{}, P_, dY_);
    plan_.launch(kernels_.backward.clear, offsets, first_tiles, P_, dY_);
  }
  /// Computes X W for each expert, packed; X has aligned rows of k columns.
  PlanSlot product(PlanSlot X, PlanSlot W, std::int64_t n, std::int64_t k) {
    const ExpertTileConfig tiles = tiles_of(ExpertGradient::rows, mean_rows(), n, k);
    const SegmentSlots s = segments(tiles.bm);
    const PlanSlot result = plan_.scratch({rows_, n}, dtype_of<T>);
    plan_.launch(kernels_.backward.rows.of(tiles), X, W, s.offsets, s.first_tiles, aligned_.offsets,
                 aligned_.first_tiles, result);
    return result;
  }

  void hidden_gradient() {
    const PlanSlot dA = product(dY_, at(kDown), i_, h_);
    const GateAndUp hidden = hidden_halves(plan_, at(kHidden), options_);
    A_ = of_aligned(i_), dH_ = of_aligned(tensor(kUp).size(1));
    const GateAndUp d = gate_and_up(plan_, dH_, 1, options_);
    // Without a bias, the dots are the gradients of the weights.
    if (!options_.scales_inputs && wants_choice_gradient())
      dots_ = is_given(kDownBias) || !is_given(kDWeights) ? of_choices() : at(kDWeights);
    plan_.launch(kernels_.backward.activation, dA, hidden.gate, hidden.up,
                 options_.scales_inputs ? PlanSlot{} : at(kWeights), at(kRowOf), at(kIds),
                 aligned_.offsets, aligned_.first_tiles, d.gate, d.up, A_, dots_);
    plan_.launch(kernels_.backward.clear, aligned_.offsets, aligned_.first_tiles, dH_, A_);
  }

  void row_gradient() {
    dP_ = product(dH_, at(kUp), h_, tensor(kUp).size(1));
    plan_.launch(kernels_.combine, dP_, at(kRowOf),
                 options_.scales_inputs ? at(kWeights) : PlanSlot{}, at(kDX));
  }

  /// Calls `f` with the kernels whose result type is that of the gradient.
  template <class F>
  void of_result(Argument gradient, const F& f) const {
    const BackwardKernels<T>& b = kernels_.backward;
    if (tensor(gradient).dtype() == DType::f32)
      f(adds_ ? b.add_f32 : b.store_f32);
    else
      f(adds_ ? b.add : b.store);
  }

  void weight_gradients() {
    const auto launch = [&](Argument to, PlanSlot left, PlanSlot right) {
      if (!is_given(to)) return;
      of_result(to, [&](const auto& k) {
        const ExpertTileConfig tiles =
            tiles_of(ExpertGradient::weights, tensor(to).size(1), tensor(to).size(2), mean_rows());
        plan_.launch(k.weight.of(tiles), left, right, aligned_.offsets, aligned_.first_tiles,
                     at(to));
      });
    };
    launch(kDDown, dY_, A_);
    launch(kDUp, dH_, P_);
  }

  void bias_gradients() {
    const auto launch = [&](Argument to, PlanSlot rows, PlanSlot weights) {
      if (!is_given(to)) return;
      of_result(to, [&](const auto& k) {
        plan_.launch(k.bias, rows, weights, at(kSlotOf), aligned_.offsets, aligned_.first_tiles,
                     at(to));
      });
    };
    launch(kDDownBias, dY_, weights_);
    launch(kDUpBias, dH_, {});
  }

  bool wants_choice_gradient() const { return is_given(kDWeights) || is_given(kDLogits); }
  PlanSlot of_choices() { return plan_.scratch(tensor(kIds).shape(), DType::f32); }

  void choice_gradient(const LogitGradientKernel& logit_gradient) {
    if (!wants_choice_gradient()) return;
    PlanSlot gradient = dots_;
    // The gradient of a weight is <dY, expert output>, or, for scaled inputs, <dP, X>.
    if (options_.scales_inputs || is_given(kDownBias)) {
      gradient = is_given(kDWeights) ? at(kDWeights) : of_choices();
      const auto& choices = kernels_.backward.choices;
      if (options_.scales_inputs)
        plan_.launch(choices, PlanSlot{}, at(kX), dP_, at(kRowOf), PlanSlot{}, gradient);
      else
        plan_.launch(choices, dots_, at(kDY), at(kDownBias), at(kRowOf), at(kIds), gradient);
    }
    if (is_given(kDLogits))
      plan_.launch(logit_gradient, at(kLogits), at(kRouterBias), at(kIds), gradient, at(kDLogits));
  }

  PlanBuilder& plan_;
  const MoeOptions& options_;
  const ExpertKernels<T>& kernels_;
  bool adds_;
  std::int64_t h_, i_, rows_, aligned_rows_;
  SegmentSlots aligned_;
  PlanSlot weights_, P_, dY_, dH_, A_, dots_, dP_;
};

}  // namespace

void Moe::backward(const Stream& stream, const Tensor& X, const Tensor& logits, const MoeWeights& w,
                   const MoeSaved& saved, const Tensor& dY, const MoeGradients& d, Loc at) const {
  const detail::CallPlace here(at);
  const Kernels& k = *kernels_;
  check_backward(k.options, {.X = X, .logits = logits, .Y = dY, .weights = w, .saved = saved}, d);
  const MoeRouting& r = saved.routing;
  const auto args =
      tensor_args(X, logits, w.router_bias, w.up, w.down, w.down_bias, dY, r.ids, r.weights,
                  r.row_of, r.slot_of, r.offsets, r.first_tiles, saved.hidden, d.X, d.logits,
                  d.weights, d.up, d.up_bias, d.down, d.down_bias);
  k.backward_plans.call(stream, args, PlanOptions{d.adds}, [&](PlanBuilder& plan) {
    k.with_type(X.dtype(), [&]<class T>(const ExpertKernels<T>& kernels) {
      BackwardPlan<T>(plan, k.options, kernels, d.adds).build(k.logit_gradient);
    });
  });
}

}  // namespace tegula::kernels
