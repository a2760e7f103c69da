#include "ir/passes/schedule/dot_graph_plan.h"

#include <algorithm>
#include <array>

#include "ir/passes/schedule/producer_warps.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

constexpr int kMinStages = 2, kMaxStages = 4;

/// Plans two CTAs per SM if both have room for three stages. It is for kernels whose threads copy
/// the operands: the other CTA then works during the first copies and the epilogue of a tile, and
/// at the barrier of each iteration. `other_bytes`: bytes of shared memory in addition to the
/// rings.
void pair_ctas(Plan& plan, const TargetRow& target, const DotNeeds& needs, std::int64_t other_bytes,
               std::int64_t needed) {
  constexpr int kMinPairedStages = 3;
  const std::int64_t bytes = target.shared_bytes_per_sm / 2 - target.shared_bytes_reserved -
                             needs.fixed_bytes - other_bytes;
  const auto stages =
      static_cast<int>(std::min<std::int64_t>(bytes / needs.stage_bytes(), kMaxStages));
  if (stages < kMinPairedStages || needed > target.registers_at_entry(2 * plan.num_warps)) return;
  plan.stages = stages;
  plan.min_ctas_per_sm = 2;
}

std::optional<Plan> plan_for(const Kernel& k, int num_warps) {
  const TargetRow& target = *k.info.target;
  const auto needs = dot_graph_needs(k, num_warps);
  if (!needs) return std::nullopt;
  Plan plan;
  plan.wgmma = plan.tma_aux_loads = true;
  plan.num_warps = plan.warps_m = num_warps;
  plan.warps_n = 1;
  // Stores in a loop have neither the space nor the time for an exchange through shared memory.
  plan.stage_stores = false;
  const auto stages_with = [&](std::int64_t bytes) {
    const std::int64_t available = target.ring_bytes() - needs->fixed_bytes - bytes;
    return static_cast<int>(
        std::clamp<std::int64_t>(available / needs->stage_bytes(), 0, kMaxStages));
  };
  std::int64_t other_bytes = staged_bytes(k, plan);
  plan.tma_store = other_bytes > 0 && stages_with(other_bytes) >= kMinStages;
  if (!plan.tma_store) other_bytes = 0;
  // A second slot of a stored tile saves a barrier, which is worth more than a third stage.
  if (stages_with(other_bytes + needs->second_slot_bytes) >= kMinStages)
    other_bytes += needs->second_slot_bytes;
  plan.stages = stages_with(other_bytes);
  const std::int64_t needed = needs->live_registers + kNonAccumulatorRegisters;
  if (needs->has_channels)
    add_producer_warps(plan, k, needed + 32, needed);
  else
    pair_ctas(plan, target, *needs, other_bytes, needed + 24);
  if (plan.stages < kMinStages || needed > plan.registers_per_consumer(target)) return std::nullopt;
  return plan;
}

}  // namespace

std::optional<DotNeeds> dot_graph_needs(const Kernel& k, int num_warps) {
  const auto needs = dot_needs(k, num_warps);
  return needs && needs->can_expand && !needs->are_plain ? std::optional(*needs) : std::nullopt;
}

/// Plans one warpgroup if no tile has more than 64 rows, or the kernel prefers one, and the
/// accumulators fit; otherwise two.
std::optional<Plan> dot_graph_plan(const Kernel& k, const KernelSummary& s) {
  if (!k.info.target->has_wgmma || k.info.cluster > 1) return std::nullopt;
  if (s.most_rows <= kWgmmaRows || k.info.preferred.num_warps == kWarpgroupWarps)
    if (const auto plan = plan_for(k, kWarpgroupWarps)) return plan;
  return plan_for(k, 2 * kWarpgroupWarps);
}

bool dot_graph_fits(const Kernel& k, const Plan& plan) {
  return k.info.target->has_wgmma && plan.wgmma && plan.warps_n == 1 && plan.num_warps > 0 &&
         plan.num_warps % kWarpgroupWarps == 0 && dot_graph_needs(k, plan.num_warps).has_value();
}

bool gathers_alone_on_sm(const Kernel& k, const Plan& plan) {
  const auto needs = dot_graph_needs(k, plan.num_warps);
  return needs && needs->has_gathers && needs->has_channels &&
         plan.stages * needs->stage_bytes() > k.info.target->shared_bytes_per_cta / 2;
}

}  // namespace tegula::ir
