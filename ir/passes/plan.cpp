// Chooses warps, stages and the partition of the accumulators. Before and after: tile form; the
// plan is in the context, and kernel.info.threads follows from it.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

struct Survey {
  std::int64_t largest_tile = 1;     ///< elements of the largest loaded, stored or reduced tile
  std::int64_t largest_product = 0;  ///< elements of the largest dot accumulator
  std::int64_t product_rows = 0;
  bool chained = false;  ///< a dot's operand depends on another dot: rows must stay within a warp
};

/// A dot whose first operand is computed from another dot's result.
bool depends_on_dot(const Kernel& k, Value v, int depth) {
  const OpId def = k[v].def;
  if (!def || depth > 24) return false;
  if (k[def].opcode == Opcode::Dot) return true;
  if (k[def].opcode == Opcode::LoadView) return false;
  return std::ranges::any_of(k[def].operands, [&](Value o) {
    return k.type(o).is_tile() && depends_on_dot(k, o, depth + 1);
  });
}

Survey survey(const Kernel& k) {
  Survey s;
  walk(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    for (Value v : d.results)
      if (k.type(v).is_tile()) s.largest_tile = std::max(s.largest_tile, k.type(v).count());
    if (d.opcode != Opcode::Dot) return;
    const Type acc = k.type(d.results[0]);
    if (acc.count() > s.largest_product) s.product_rows = acc.shape()[0];
    s.largest_product = std::max(s.largest_product, acc.count());
    s.chained = s.chained || depends_on_dot(k, d.operands[0], 0);
  });
  return s;
}

/// Enough warps that a thread holds about `elements` of the largest tile.
int warps_for(std::int64_t tile, std::int64_t elements) {
  const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(1, tile / (32 * elements)));
  return static_cast<int>(std::clamp<std::uint64_t>(std::bit_floor(wanted), 1, 16));
}

Plan make_plan(const Kernel& k) {
  const Survey s = survey(k);
  Plan plan;
  if (s.largest_product == 0) {
    // Memory-bound: 16 elements a thread keep two or more 16-byte accesses in flight.
    plan.warps = std::max(warps_for(s.largest_tile, 16), 1);
    return plan;
  }
  if (s.chained) {
    plan.warps = static_cast<int>(std::clamp<std::uint64_t>(
        std::bit_floor(static_cast<std::uint64_t>(s.product_rows / 16)), 1, 8));
    plan.warps_m = plan.warps;
    plan.warps_n = 1;
    plan.stages = 2;
    return plan;
  }
  plan.warps = std::clamp(warps_for(s.largest_product, 64), 1, 8);
  plan.warps_m = plan.warps >= 4 ? plan.warps / 2 : plan.warps;
  plan.warps_n = plan.warps / plan.warps_m;
  if (plan.warps == 8) plan.warps_m = 2, plan.warps_n = 4;
  return plan;
}

}  // namespace

bool plan(Kernel& kernel, PassContext& context) {
  if (!context.plan) context.plan = make_plan(kernel);
  kernel.info.threads = 32 * context.plan->warps;
  context.remark(Remark::Kind::Analysis, {}, "plan", {{"plan", context.plan->str()}});
  return true;
}

}  // namespace tegula::ir
