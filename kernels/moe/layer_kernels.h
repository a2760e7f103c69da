#pragma once
// Kernels of a layer, and definitions shared by its forward and backward passes.
#include "kernels/moe/backward_kernels.h"
#include "kernels/moe/expert_products.h"
#include "kernels/moe/quantised_rows.h"
#include "kernels/moe/routing_plan.h"
#include "kernels/moe/rows.h"
#include "tegula/kernels/fused_matmul.h"

namespace tegula::kernels {
namespace experts {

/// Epilogue that returns the accumulators unchanged.
struct Logits {
  Tile operator()(Tile acc, Index, Index) const { return acc; }
};

template <class T>
struct ForwardKernels {
  explicit ForwardKernels(const ExpertActivation& activation) : up("moe_up", {activation}) {}

  mutable ConfiguredKernel<detail::DataParallelMatmul<T, f32, Logits>> logits{"moe_logits", {}};
  mutable ConfiguredKernel<ExpertUp<T>> up;
  mutable ConfiguredKernel<ExpertDown<T>> down{"moe_down", {}};
};

/// Forward kernels of 8-bit experts; input and output rows are of type T.
template <class T>
struct QuantisedKernels {
  QuantisedKernels(const ExpertActivation& activation, bool promotes)
      : up("moe_up_f8", {activation, promotes}),
        up_to_8_bits("moe_up_f8_f8", {activation, promotes}),
        down("moe_down_f8", {promotes}) {}

  decltype(kernel("", PermuteQuantisedRows<T>{})) permute =
      kernel("moe_permute_f8", PermuteQuantisedRows<T>{});
  mutable ConfiguredKernel<ExpertUp<f8e4m3, T, T, UpScales>> up;
  mutable ConfiguredKernel<ExpertUp<f8e4m3, T, f8e4m3, UpScales>> up_to_8_bits;
  decltype(kernel("", QuantiseActivations<T>{})) quantise =
      kernel("moe_quantise_activations", QuantiseActivations<T>{});
  mutable ConfiguredKernel<ExpertDown<f8e4m3, T, DownScales>> down;
};

/// Kernels whose results are of type T, or of type O for main gradients.
template <class T, class O>
struct GradientKernels {
  explicit GradientKernels(bool adds)
      : weight("moe_weight_gradient", {adds}),
        bias(kernel("moe_bias_gradient", BiasGradient<T, O>{adds})) {}
  mutable ConfiguredKernel<WeightGradient<T, O>> weight;
  decltype(kernel("", BiasGradient<T, O>{})) bias;
};

template <class T>
struct BackwardKernels {
  explicit BackwardKernels(const ExpertActivation& activation)
      : activation(kernel("moe_activation_gradient", ActivationGradient<T>{activation})) {}

  decltype(kernel("", ActivationGradient<T>{})) activation;
  mutable ConfiguredKernel<RowGradient<T>> rows{"moe_row_gradient", {}};
  decltype(kernel("", PermuteAlignedRows<T>{})) permute =
      kernel("moe_permute_aligned", PermuteAlignedRows<T>{});
  decltype(kernel("", ClearLeftOverRows<T>{})) clear =
      kernel("moe_clear_left_over", ClearLeftOverRows<T>{});
  decltype(kernel("", ChoiceGradient<T>{})) choices =
      kernel("moe_choice_gradient", ChoiceGradient<T>{});
  GradientKernels<T, T> store{false}, add{true};
  GradientKernels<T, f32> store_f32{false}, add_f32{true};
};

template <class T>
struct ExpertKernels {
  explicit ExpertKernels(const MoeOptions& o)
      : forward(o.activation),
        quantised(o.activation, o.quantisation && o.quantisation->fp32_promotion),
        backward(o.activation) {}
  ForwardKernels<T> forward;
  QuantisedKernels<T> quantised;
  BackwardKernels<T> backward;
  decltype(kernel("", PermuteRows<T>{})) permute = kernel("moe_permute", PermuteRows<T>{});
  decltype(kernel("", CombineRows<T>{})) combine = kernel("moe_combine", CombineRows<T>{});
};

/// Gate and up parts of a tensor [.., outputs, ..] along `dim`; without a gate, the whole tensor
/// and no up part. Both are undefined if the tensor is.
struct GateAndUp {
  PlanSlot gate, up;
};
GateAndUp gate_and_up(PlanBuilder& plan, PlanSlot all, int dim, const MoeOptions& options);
/// Tiles of the two GEMMs of a layer with `rows` rows, hidden size h, intermediate size i.
struct LayerTiles {
  ExpertTileConfig up, down;
};
LayerTiles tiles_of_layer(PlanBuilder& plan, const MoeOptions& options, std::int64_t rows,
                          std::int64_t h, std::int64_t i, DType operands);
/// Returns the halves of `hidden`, in which gates always come first.
GateAndUp hidden_halves(PlanBuilder& plan, PlanSlot hidden, const MoeOptions& options);
/// Returns a view of [tokens, k] as [tokens * k].
PlanSlot flat(PlanBuilder& plan, PlanSlot choices);

}  // namespace experts

struct Moe::Kernels {
  explicit Kernels(MoeOptions o)
      : options(std::move(o)),
        routing(options),
        of_bf16(options),
        of_f16(options),
        logit_gradient(kernel("moe_logit_gradient", experts::LogitGradient{options.router})) {}

  MoeOptions options;
  experts::RoutingKernels routing;
  experts::ExpertKernels<bf16> of_bf16;
  experts::ExpertKernels<f16> of_f16;
  decltype(kernel("", experts::LogitGradient{})) logit_gradient;
  CallPlans routing_plans, forward_plans{StrideKey::exact}, backward_plans{StrideKey::exact};

  /// Calls `f` with the kernels for X's type.
  template <class F>
  void with_type(DType dtype, const F& f) const {
    dtype == DType::bf16 ? f(of_bf16) : f(of_f16);
  }
};

}  // namespace tegula::kernels
