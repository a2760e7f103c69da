#include <algorithm>

#include "kernels/moe/layer_kernels.h"

namespace tegula::kernels::experts {
namespace {

/// Rows per expert that configurations are chosen for if they must not depend on the batch.
constexpr std::int64_t kInvariantRows = 32;

/// Returns a view of every `step`th element of a dimension; an undefined slot stays undefined.
PlanSlot part_of(PlanBuilder& plan, PlanSlot slot, int dim, std::int64_t begin, std::int64_t end,
                 std::int64_t step) {
  if (!plan.tensor(slot).defined()) return slot;
  return plan.view(slot, [=](const Tensor& t) { return t.slice(dim, begin, end, step); });
}

GateAndUp halves(PlanBuilder& plan, PlanSlot all, int dim, bool is_interleaved) {
  const Tensor& t = plan.tensor(all);
  if (!t.defined()) return {};
  const std::int64_t n = t.size(dim);
  if (is_interleaved) return {part_of(plan, all, dim, 0, n, 2), part_of(plan, all, dim, 1, n, 2)};
  return {part_of(plan, all, dim, 0, n / 2, 1), part_of(plan, all, dim, n / 2, n, 1)};
}

}  // namespace

GateAndUp gate_and_up(PlanBuilder& plan, PlanSlot all, int dim, const MoeOptions& options) {
  if (!options.activation.is_gated) return {all, {}};
  return halves(plan, all, dim, options.is_interleaved);
}

LayerTiles tiles_of_layer(PlanBuilder& plan, const MoeOptions& options, std::int64_t rows,
                          std::int64_t h, std::int64_t i, DType operands) {
  // If there are fewer rows than experts, at most that many experts have rows.
  const std::int64_t all = all_experts(options),
                     mean = options.is_batch_invariant ? kInvariantRows : rows / all,
                     experts =
                         options.is_batch_invariant ? all : std::clamp(rows, std::int64_t{1}, all);
  const auto tiles = [&](const std::optional<ExpertTileConfig>& given, const ExpertProblem& p) {
    return given ? *given : choose_expert_tiles(p, plan.device());
  };
  const auto& q = options.quantisation;
  const bool promotes = q && q->fp32_promotion, packs = q && q->scaling == ExpertScaling::tensor;
  const ExpertProblem up{.rows = mean,
                         .columns = i,
                         .k = h,
                         .experts = experts,
                         .product = ExpertProduct::up,
                         .operands = operands,
                         .is_gated = options.activation.is_gated,
                         .choices = gathers_rows(options) ? choices_per_token(options) : 0,
                         .result = packs ? operands : DType::bf16,
                         .fp32_promotion = promotes},
      down{.rows = mean,
           .columns = h,
           .k = i,
           .experts = experts,
           .product = ExpertProduct::down,
           .operands = operands,
           .fp32_promotion = promotes};
  return {tiles(options.tiles.up, up), tiles(options.tiles.down, down)};
}

GateAndUp hidden_halves(PlanBuilder& plan, PlanSlot hidden, const MoeOptions& options) {
  if (!options.activation.is_gated) return {hidden, {}};
  return halves(plan, hidden, 1, false);
}

PlanSlot flat(PlanBuilder& plan, PlanSlot choices) {
  return plan.view(choices, [](const Tensor& t) { return t.reshape({t.numel()}); });
}

}  // namespace tegula::kernels::experts
