#include "ir/passes/schedule/kernel_summary.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>

#include "ir/access.h"
#include "ir/analysis/facts.h"
#include "ir/analysis/tma_store.h"
#include "ir/schedule/graph.h"
#include "ir/schedule/staging_rings.h"

namespace tegula::ir {
namespace {

/// Registers for column terms: a factor, and the terms added to rows.
constexpr int kColumnTermRegisters = 4;

/// Returns the number of warps, in whole warpgroups, for 16 rows per warp, at most those of a CTA.
int warps_of_rows(std::int64_t rows) {
  constexpr std::int64_t kMaxWarpgroups = 4;
  return kWarpgroupWarps *
         static_cast<int>(std::clamp<std::int64_t>(rows / kWgmmaRows, 1, kMaxWarpgroups));
}

/// Returns true if the value is computed from the result of a dot.
bool depends_on_dot(const Kernel& k, Value v, int depth) {
  const OpId def = k[v].def;
  if (!def || depth > 24) return false;
  if (k[def].opcode == Opcode::Dot) return true;
  if (k[def].opcode == Opcode::LoadView) return false;
  const auto depends = [&](Value o) {
    return k.type(o).is_tile() && depends_on_dot(k, o, depth + 1);
  };
  if (k[def].opcode != Opcode::If) return std::ranges::any_of(k[def].operands, depends);
  const std::size_t i = k[v].position;
  return std::ranges::any_of(k[def].regions, [&](RegionId r) {
    const OpId yield = k.terminator(r);
    return yield && depends(k[yield].operands[i]);
  });
}

/// Returns true if the accumulator starts as a broadcast row that is computed outside of the loop:
/// a thread keeps its columns of that row in registers.
bool is_repeated_row(const Kernel& k, Value acc, RegionId loop_body) {
  const OpId def = k[acc].def;
  return def && k[def].opcode == Opcode::Broadcast && k[def].parent != loop_body &&
         k.type(k[def].operands[0]).shape()[0] == 1;
}

/// Returns true if the value is computed from values read from memory, possibly through tiles.
bool is_read(const Kernel& k, Value v, std::unordered_set<Value>& seen) {
  const OpId def = k[v].def;
  if (!def || !seen.insert(v).second) return false;
  const auto any = [&](const auto& values) {
    return std::ranges::any_of(values, [&](Value o) { return is_read(k, o, seen); });
  };
  return info(k[def].opcode).has(kReads) || any(k[def].operands) ||
         std::ranges::any_of(k[def].regions, [&](RegionId r) {
           const OpId yield = k.terminator(r);
           return yield && any(k[yield].operands);
         });
}

/// Returns the bytes of all slots of a Schedule's store channels, for one group of warps.
std::int64_t author_staging_bytes(const Kernel& k, const Schedule& requested) {
  const Graph graph = Graph::without_edges(k);
  std::int64_t sum = 0;
  for (const Channel& c : requested.channels) {
    if (!is_of_stores(c.kind)) continue;
    std::int64_t most = 0;
    for (Label l : c.payload)
      if (const auto node = graph.find(l)) {
        const OpData& d = k[graph[*node].ops.front()];
        if (d.opcode == Opcode::StoreView && why_not_tma_store(k, d).empty())
          most = std::max(most, staging_bytes(k.type(stored_value(d)), c.columns));
      }
    sum += c.slots * most;
  }
  return sum;
}

}  // namespace

bool is_aux_load(const Kernel& k, OpId load) {
  const OpData& d = k[load];
  const OpId loop = k[d.parent].owner;
  if (d.opcode != Opcode::LoadView || !loop || k[loop].opcode != Opcode::For ||
      !k.type(d.results[0]).is_tile())
    return false;
  for (OpId op : k.ops(d.parent))
    for (std::size_t i : {0U, 1U})
      if (k[op].opcode == Opcode::Dot && source_of(k, op, i).op == load) return false;
  return bool(first_dot(k, d.parent));
}

PlanPatch wanted_fields(const Kernel& k, const PassContext& context) {
  return merged(k.info.preferred, context.planned.fields());
}

bool prefers_tma_aux_loads(const Kernel& k, const PassContext& context) {
  if (context.plan) return context.plan->tma_aux_loads;
  return wanted_fields(k, context).tma_aux_loads.value_or(false) && k.info.target->has_tma;
}

KernelSummary summarize(const Kernel& k) {
  KernelSummary s;
  const Facts bounds(k);
  walk(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    if (d.opcode == Opcode::For)
      s.stages = std::max(s.stages, static_cast<int>(d.attrs.i(AttrName::stages, 0)));
    for (Value v : d.results)
      if (k.type(v).is_tile()) s.max_tile_elems = std::max(s.max_tile_elems, k.type(v).count());
    if (d.opcode != Opcode::Dot) return;
    const Type acc = k.type(d.results[0]);
    if (acc.count() > s.max_accumulator_elems) s.mma_rows = acc.shape()[0];
    s.most_rows = std::max(s.most_rows, acc.shape()[0]);
    s.max_accumulator_elems = std::max(s.max_accumulator_elems, acc.count());
    s.common_rows = std::gcd(s.common_rows, acc.shape()[0]);
    s.common_columns = std::gcd(s.common_columns, acc.shape()[1]);
    s.back_to_back = s.back_to_back || depends_on_dot(k, d.operands[0], 0);
    if (const OpId loop = k[d.parent].owner; loop && k[loop].opcode == Opcode::For)
      s.has_trip = bounds.is_less(k[loop].operands[0], k[loop].operands[1], loop);
    if (is_repeated_row(k, d.operands[2], d.parent))
      s.accumulator_init_registers += acc.shape()[1] / 4 + kColumnTermRegisters;
  });
  if (s.max_accumulator_elems > 0 && k.info.target->has_wgmma)
    s.dots = dot_needs(k, warps_of_rows(s.mma_rows));
  return s;
}

std::int64_t staged_bytes(const Kernel& k, const Plan& p, const Schedule* requested) {
  if (requested) return author_staging_bytes(k, *requested) * p.groups();
  std::int64_t most = 0;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode != Opcode::StoreView || !why_not_tma_store(k, k[op]).empty()) return;
    const Type tile = k.type(stored_value(k[op]));
    const std::int64_t rows = tile.shape()[0], columns = tile.shape()[1];
    const bool in_blocks = p.epilogue_tile_n > 0 && columns % p.epilogue_tile_n == 0;
    most = std::max(most, rows * (in_blocks ? p.epilogue_tile_n : columns) *
                              size_bytes(tile.dtype()) * p.groups());
  });
  return most;
}

bool has_data_dependent_trips(const Kernel& k) {
  std::unordered_set<Value> seen;
  return any_op(k, k.body(), [&](OpId op) {
    const OpId loop = k[k[op].parent].owner;
    if (k[op].opcode != Opcode::Dot || !loop || k[loop].opcode != Opcode::For) return false;
    return is_read(k, k[loop].operands[0], seen) || is_read(k, k[loop].operands[1], seen);
  });
}

bool has_balanced_pairs(const Kernel& k) {
  return any_op(k, k.body(), [&](OpId op) { return k[op].attrs.i(AttrName::balanced_pairs) == 1; });
}

bool uses_pdl(const Kernel& k) {
  return any_op(k, k.body(), [&](OpId op) { return k[op].opcode == Opcode::GridDependencyWait; });
}

}  // namespace tegula::ir
