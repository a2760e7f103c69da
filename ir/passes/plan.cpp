// Chooses warps, stages and the partition of the accumulators. Before and after: tile form; the
// plan is in the context, and kernel.info.threads follows from it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "ir/analysis/held_registers.h"
#include "ir/analysis/neighbours.h"
#include "ir/analysis/tma_access.h"
#include "ir/analysis/tma_store.h"
#include "ir/passes/cluster_split_k/split_products.h"
#include "ir/passes/mma_loop/operand_loads.h"
#include "ir/passes/schedule/plan_reasons.h"
#include "ir/passes/schedule/plan_survey.h"
#include "ir/passes/schedule/swap_operands.h"
#include "ir/pipeline.h"
#include "support/errors.h"

namespace tegula::ir {
namespace {

constexpr int kMaxStages = 4;
/// Of steps half as large; leaves an epilogue some memory.
constexpr int kMaxAlternatingStages = 6;
/// Registers that a thread which copies has use for.
constexpr int kCopyRegisters = 40;
/// What a wgmma needs beside its sums: addresses, and what ptxas keeps.
constexpr int kBesideSums = 26;
/// Of a block of results: what a thread holds of a few operands beside the largest sums.
constexpr int kStoreColumns = 32;

/// Warps on an SM that keep its memory busy, and what each thread may hold of the 64 registers
/// that leaves it: addresses and what is computed on the way need the others.
constexpr int kBusyWarps = 32, kHeldRegisters = 48;

/// As many warps of equally many 16 rows, one behind the other.
int warps_for_rows(std::int64_t rows, std::int64_t most) {
  for (std::int64_t warps = most; warps > 1; --warps)
    if (rows % (warps * kWarpRows) == 0) return static_cast<int>(warps);
  return 1;
}

/// Enough warps that a thread holds about `elements` of the largest tile.
int warps_for(std::int64_t tile, std::int64_t elements) {
  const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(1, tile / (32 * elements)));
  return static_cast<int>(std::clamp<std::uint64_t>(std::bit_floor(wanted), 1, 16));
}

/// One warp that copies, or, where those that compute have use for more registers than it leaves
/// them, a warpgroup that gives up its own, if that is more: all of them if they are needed.
void add_copy_warps(Plan& plan, const TargetRow& target, std::int64_t useful, std::int64_t needed) {
  plan.copy_warps = 1;
  if (useful <= plan.registers_at_entry(target)) return;
  Plan given = plan;
  given.copy_warps = kWarpgroupWarps;
  const auto beside = [&](int kept) {
    return target.setmaxnreg_beside(given.computing_warps(), given.copy_warps, kept);
  };
  given.registers = beside(kCopyRegisters);
  if (needed > given.registers) given.registers = beside(target.least_setmaxnreg);
  if (given.registers > given.registers_at_entry(target)) plan = given;
}

/// A product loop of the kernel's body, as long for every tile, loads something that two
/// neighbouring tiles share and that can be brought in halves.
bool can_multicast(const Kernel& k) {
  if (any_op(k, k.body(), [&](OpId op) { return k[op].attrs.i(AttrName::pairs) == 1; }))
    return false;
  if (k.info.cluster != 1 || !k.info.target->has_clusters) return false;
  return any_op(k, k.body(), [&](OpId op) {
    const OpId loop = k[k[op].parent].owner;
    if (k[op].opcode != Opcode::Dot || !loop || k[loop].parent != k.body()) return false;
    Neighbours neighbours(k, loop);
    return std::ranges::any_of(std::array{0, 1}, [&](int i) {
      const OpId load = load_of(k, k[op], i);
      return load && is_tma_operand(k, k[op], i) && neighbours.have_equal_steps() &&
             can_be_halved(k.type(k[load].operands[0]), k[load].attrs.ints(AttrName::axes),
                           k.type(k[load].results[0])) &&
             neighbours.may_share(load);
    });
  });
}

/// A tile's first product beside the last of the one before needs its operand early: a second slot,
/// for which the late product's ring may have one less. Where there is no room, or no register to
/// spare, products beside each other gain nothing
/// (bench/results/sweeps/2026-11-22-h200-tile-overlap.jsonl).
void overlap_tiles_if_possible(Plan& plan, const Survey& s, std::int64_t ring_bytes) {
  if (!plan.persistent || !plan.turns || !s.has_steps || s.first_sums > 0) return;
  const auto fits = [&](int late_stages) {
    return plan.stages * (s.step_bytes - s.last_bytes) + late_stages * s.last_bytes +
               2 * s.once_bytes <=
           ring_bytes;
  };
  if (!fits(plan.stages) && (plan.stages == 2 || !fits(plan.stages - 1))) return;
  plan.overlap_tiles = true;
  plan.once_stages = 2;
  if (!fits(plan.stages)) plan.late_stages = plan.stages - 1;
}

/// An instruction of TMA stands for a box of elements that are combined with memory
/// (bench/results/sweeps/2026-11-23-h200-choices.jsonl).
bool combines_by_tma(const Kernel& k) {
  bool combines = false;
  walk(k, k.body(), [&](OpId op) {
    combines = combines ||
               (k[op].opcode == Opcode::StoreView && k[op].attrs.find(AttrName::kind) != nullptr &&
                why_not_by_tma(k, k[op]).empty());
  });
  return combines;
}

/// Of a persistent kernel. Two products a step would give up slots of their rings for it.
bool wants_tma_store(const Kernel& k, const Survey& s, const Plan& plan) {
  return asks_for(k, AttrName::tma_store) || (plan.persistent && !s.chained && combines_by_tma(k));
}

/// All warps compute, 16 rows each; the ring is as deep as shared memory allows.
std::optional<Plan> wgmma_plan(const Kernel& k, const Survey& s) {
  const TargetRow& target = *k.info.target;
  if (!target.has_wgmma || !s.wgmma || s.step_bytes == 0) return std::nullopt;
  Plan plan;
  plan.wgmma = true;
  plan.warps = plan.warps_m = static_cast<int>(s.product_rows / kWarpRows);
  plan.warps_n = 1;
  plan.turns = s.chained && plan.warps >= 8;
  plan.stages = static_cast<int>(std::min<std::int64_t>(
      s.stages != 0 ? s.stages : kMaxStages, (target.ring_bytes() - s.once_bytes) / s.step_bytes));
  // What else the thread keeps: rows' state, addresses. Of the two emitters' code, one takes a
  // little more, and addresses of odd widths do; two steps' fragments may be alive at once.
  const std::int64_t needed = s.accumulators + s.fragments + 32;
  // Who copies has use for its own where lists in memory say what.
  const std::int64_t held = is_work_read(k) ? 0 : s.first_sums;
  add_copy_warps(plan, target, needed + s.fragments + 32, needed + held + 24);
  // Two CTAs on an SM overlap by themselves. Rings that are never empty leave no place to stage
  // stores in.
  plan.persistent = k.info.cluster == 1 &&
                    s.once_bytes + plan.stages * s.step_bytes > target.shared_bytes_per_cta / 2;
  plan.dynamic = plan.persistent && !starts_early(k) && is_work_read(k);
  overlap_tiles_if_possible(plan, s, target.ring_bytes());
  plan.stage_stores = !plan.persistent;
  plan.multicast = asks_for(k, AttrName::multicast);
  plan.tma_store = wants_tma_store(k, s, plan);
  if (plan.persistent) plan.store_columns = kStoreColumns;
  // ptxas takes no single instruction of more registers than all have at the entry (C7602).
  const std::int64_t of_one = s.largest_product / s.product_rows / 2 + kBesideSums;
  if (plan.stages < 2 || needed > plan.computing_registers(target) ||
      of_one > plan.registers_at_entry(target))
    return std::nullopt;
  return plan;
}

bool can_alternate(const Kernel& k, const Survey& s) {
  return k.info.target->has_wgmma && s.wgmma && s.step_bytes > 0 && s.largest_product > 0 &&
         !s.chained && k.info.cluster == 1 && !is_work_read(k) &&
         s.product_rows % kWgmmaRows == 0 && (s.product_rows == kWgmmaRows || s.stacks);
}

/// A tile is one warpgroup's work, all its 64 rows after each other; two take tiles in turn.
std::optional<Plan> alternating_plan(const Kernel& k, bool tma_loads) {
  const Survey s = survey(k, tma_loads);
  const TargetRow& target = *k.info.target;
  if (!can_alternate(k, s)) return std::nullopt;
  Plan plan;
  plan.wgmma = plan.persistent = plan.alternate = true;
  plan.warps = plan.warps_m = kWarpgroupWarps;
  plan.warps_n = 1;
  plan.stages =
      static_cast<int>(std::min<std::int64_t>(s.stages != 0 ? s.stages : kMaxAlternatingStages,
                                              (target.ring_bytes() - s.once_bytes) / s.step_bytes));
  const std::int64_t needed = s.accumulators * s.product_rows / kWgmmaRows + s.fragments + 32;
  add_copy_warps(plan, target, needed + s.fragments + 32, needed + 24);
  plan.stage_stores = false;
  plan.store_columns = kStoreColumns;
  plan.multicast = asks_for(k, AttrName::multicast);
  plan.tma_store = wants_tma_store(k, s, plan);
  plan.tma_loads = tma_loads;
  if (plan.stages < 2 || needed > plan.computing_registers(target)) return std::nullopt;
  return plan;
}

/// Of `wanted` slots of what threads copy, those that shared memory has room for.
int stages_that_fit(const Kernel& k, int wanted) {
  while (wanted > 1 && copied_ring_bytes(k, wanted) > k.info.target->shared_bytes_per_cta) --wanted;
  return wanted;
}

Plan make_plan(const Kernel& k, bool tma_loads) {
  const Survey s = survey(k);
  Plan plan;
  if (s.largest_product == 0) {
    // Memory-bound: 32 elements a thread keep four or more 16-byte accesses in flight, and fewer
    // warps meet at a row's barriers than with 16.
    plan.warps = std::max(warps_for(s.largest_tile, 32), 1);
    // While the threads of one CTA meet, others must have enough under way.
    const auto held = held_registers(k, 32 * plan.warps);
    if (held && *held <= kHeldRegisters) plan.min_ctas = kBusyWarps / plan.warps;
    return plan;
  }
  if (tma_loads)
    if (const auto hopper = wgmma_plan(k, survey(k, tma_loads))) return *hopper;
  if (const auto hopper = wgmma_plan(k, s)) return *hopper;
  if (s.chained) {
    plan.warps = plan.warps_m = warps_for_rows(s.product_rows, 8);
    plan.warps_n = 1;
    plan.stages = stages_that_fit(k, s.stages != 0 ? s.stages : 2);
    return plan;
  }
  plan.warps = std::clamp(warps_for(s.largest_product, 64), 1, 8);
  plan.warps_m = plan.warps >= 4 ? plan.warps / 2 : plan.warps;
  plan.warps_n = plan.warps / plan.warps_m;
  if (plan.warps == 8) plan.warps_m = 2, plan.warps_n = 4;
  plan.stages = stages_that_fit(k, s.stages != 0 ? s.stages : plan.stages);
  return plan;
}

/// Products under a condition, or in a loop that does not count, are no wgmmas.
bool are_in_counted_loops(const Kernel& k) {
  return !any_op(k, k.body(), [&](OpId op) {
    OpId owner = k[op].opcode == Opcode::Dot ? k[k[op].parent].owner : OpId();
    while (owner && k[owner].opcode == Opcode::For) owner = k[k[owner].parent].owner;
    return bool(owner);
  });
}

/// Products of few rows that are no wgmmas, but would be as their transposes.
bool gains_by_swap(const Kernel& k) {
  const Survey s = survey(k);
  if (!are_in_counted_loops(k)) return false;
  if (!k.info.target->has_wgmma || s.wgmma || s.chained || s.largest_product == 0) return false;
  Kernel other = clone(k);
  return swap_operands(other) && wgmma_plan(other, survey(other)).has_value();
}

/// What changes to a plan say of its field `swap`, if anything.
std::optional<bool> asked_to_swap(std::string_view changes) {
  Plan without, with;
  with.swap = true;
  without.change(changes);
  with.change(changes);
  return with.swap == without.swap ? std::optional(with.swap) : std::nullopt;
}

/// Whether products are transposed now.
bool swap_if_wanted(Kernel& k, PassContext& context) {
  const auto asked =
      context.plan ? std::optional(context.plan->swap) : asked_to_swap(context.plan_changes);
  if (!asked.value_or(gains_by_swap(k))) return false;
  if (swap_operands(k)) return true;
  if (context.plan)
    refuse_plan(k, context.plan->str(),
                "swap needs products that add to sums which loops carry, and no cluster",
                context.changed_at);
  context.remark(Remark::Kind::Missed, {}, "operands are not swapped: no sums that loops carry");
  return false;
}

/// Changes are meant for every kernel of a process, and most are not for products.
void drop_wgmma_fields(const Kernel& k, bool was_wgmma, PassContext& context) {
  Plan& p = *context.plan;
  const Plan before = p;
  p.copy_warps = p.registers = 0;
  p.persistent = p.turns = p.dynamic = p.multicast = p.alternate = p.overlap_tiles = p.tma_store =
      p.tma_loads = false;
  if (p != before && !was_wgmma) context.remark(Remark::Kind::Missed, {}, why_no_wgmma(k));
}

void drop_persistent_in_clusters(const Kernel& k, PassContext& context) {
  if (k.info.cluster == 1 || (!context.plan->persistent && !context.plan->dynamic)) return;
  context.plan->persistent = context.plan->dynamic = false;
  context.remark(Remark::Kind::Missed, {}, "not persistent: programs work in clusters");
}

/// Tiles side by side go to a cluster only where they are dealt.
void drop_multicast_unless_possible(const Kernel& k, PassContext& context) {
  Plan& p = *context.plan;
  if (!p.multicast || (p.persistent && !p.dynamic && can_multicast(k))) return;
  p.multicast = false;
  context.remark(Remark::Kind::Missed, {},
                 p.dynamic            ? "no multicast: tiles come from a counter"
                 : k.info.cluster > 1 ? "no multicast: programs work in clusters"
                                      : "no multicast: no operand that neighbouring tiles share");
}

/// Those of all rings, and of what a loop brings once.
std::int64_t ring_bytes(const Survey& s, const Plan& p) {
  const int late = p.late_stages > 0 ? p.late_stages : p.stages;
  return p.once_stages * s.once_bytes + p.stages * (s.step_bytes - s.last_bytes) +
         late * s.last_bytes;
}

void drop_tma_loads_unless_possible(const Kernel& k, PassContext& context) {
  Plan& p = *context.plan;
  if (!p.tma_loads) return;
  const Survey s = survey(k, true);
  if (p.wgmma && s.beside_bytes > 0 && ring_bytes(s, p) <= k.info.target->ring_bytes()) return;
  p.tma_loads = false;
  if (s.largest_product == 0) return;
  context.remark(
      Remark::Kind::Missed, {},
      !k.info.target->has_tma ? fmt::format("no loads by TMA: {} has none", k.info.target.name())
      : !p.wgmma              ? "no loads by TMA: products are no wgmmas"
      : s.beside_bytes == 0
          ? "no loads by TMA: products load nothing beside their operands that it can bring"
          : "no loads by TMA: no shared memory beside the operands");
}

/// Of the blocks that TMA can store, one for each warpgroup; 0: there is none.
std::int64_t staged_bytes(const Kernel& k, const Plan& p) {
  std::int64_t most = 0;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode != Opcode::StoreView || !why_not_by_tma(k, k[op]).empty()) return;
    const Type tile = k.type(k[op].operands[1]);
    const std::int64_t rows = tile.shape()[0], columns = tile.shape()[1];
    const bool in_blocks = p.store_columns > 0 && columns % p.store_columns == 0;
    most = std::max(most, rows * (in_blocks ? p.store_columns : columns) *
                              size_bytes(tile.dtype()) * p.groups());
  });
  return most;
}

/// Of two products' operands two slots each are enough, and one of what is brought once; those of
/// one product stay as deep.
void drop_tma_store_unless_possible(const Kernel& k, PassContext& context) {
  Plan& p = *context.plan;
  if (!p.tma_store) return;
  const Survey s = survey(k, p.tma_loads);
  const std::int64_t staged = p.persistent ? staged_bytes(k, p) : 0;
  const auto fits = [&] {
    return s.once_bytes + p.stages * s.step_bytes + staged <= k.info.target->ring_bytes();
  };
  const Plan before = p;
  if (p.overlap_tiles) p.overlap_no_tiles();
  while (s.chained && p.stages > 2 && !fits()) --p.stages;
  if (staged > 0 && fits()) return;
  p = before;
  p.tma_store = false;
  context.remark(Remark::Kind::Missed, {},
                 !p.persistent ? "no stores by TMA: not a persistent kernel's"
                 : staged == 0 ? "no stores by TMA: no result that it can store"
                               : "no stores by TMA: no shared memory beside the rings");
}

/// Tiles that are dealt, of one warpgroup each, which does not copy.
bool goes_with_alternate(const Plan& p) {
  return p.wgmma && p.persistent && p.copy_warps > 0 && !p.dynamic && !p.turns;
}

/// Another plan from the first field on, to which the changes are made, too.
void alternate_if_possible(const Kernel& k, PassContext& context) {
  auto plan = alternating_plan(k, context.plan->tma_loads);
  if (plan) plan->change(context.plan_changes);
  if (plan && plan->alternate && goes_with_alternate(*plan)) {
    plan->swap = context.plan->swap;
    context.plan = plan;
    return;
  }
  context.plan->alternate = false;
  context.remark(Remark::Kind::Missed, {},
                 plan ? "tiles do not alternate: not with other fields of the plan"
                      : "tiles do not alternate: no products of which a warpgroup can have a tile");
}

/// Elements in runs of `unit` can be dealt to so many warps: to a power of two in any case, as some
/// may have what others have.
bool are_dealt(std::int64_t elements, std::int64_t unit, int warps) {
  const auto count = static_cast<unsigned>(std::max(warps, 1));
  const std::int64_t odd = count >> std::countr_zero(count);
  return odd == 1 || elements % (unit * odd) == 0;
}

/// A plan that somebody else made or changed must be one that the passes can carry out.
void require_legal(const Plan& p, const Kernel& k, Loc asked_at) {
  const TargetRow& target = *k.info.target;
  const Survey s = survey(k);
  const bool may_be_wgmma =
      k.info.target->has_wgmma && s.wgmma && s.step_bytes > 0 && s.largest_product > 0;
  const struct {
    bool holds;
    const char* rule;
  } kRules[] = {
      {p.warps >= 1 && p.computing_warps() + p.copy_warps <= 32,
       "warps and copy_warps are 1 to 32 together"},
      {p.min_ctas >= 1, "min_ctas is at least 1"},
      {p.stages >= (p.wgmma ? 2 : 1) && p.stages <= 16, "stages is 1 to 16, with wgmma 2 to 16"},
      {p.warps_m == 0 || p.warps_m * p.warps_n == p.warps, "warps is warps_m times warps_n"},
      {p.wgmma || (are_dealt(s.common_rows, kWarpRows, p.warps_m) &&
                   are_dealt(s.common_columns, kMmaColumns, p.warps_n)),
       "warps_m and warps_n are powers of two, times what divides 16 rows and 8 columns of "
       "products"},
      {!p.wgmma || may_be_wgmma, "wgmma=1 needs products that wgmma can compute"},
      {!p.wgmma || p.alternate || (p.warps_n == 1 && p.warps * kWarpRows == s.product_rows),
       "with wgmma a warp has 16 rows, and warps_n is 1"},
      {p.store_columns >= 0, "store_columns is at least 0"},
      {p.once_stages >= 1, "once_stages is at least 1"},
      {p.late_stages == 0 || p.late_stages >= 2, "late_stages is 0 or at least 2"},
      {!p.overlap_tiles || (p.wgmma && p.persistent), "overlap_tiles needs wgmma and persistent"},
      {!p.turns || (p.wgmma && p.warps >= 8), "turns are for two or more warpgroups' wgmmas"},
      {p.wgmma || (p.copy_warps == 0 && !p.persistent), "copy_warps and persistent need wgmma"},
      {k.info.cluster == 1 || !p.persistent, "a kernel with clusters is not persistent"},
      {!p.multicast || (p.persistent && can_multicast(k)),
       "multicast is for persistent kernels in which neighbouring tiles share what a loop loads"},
      {!p.alternate ||
           (p.warps == kWarpgroupWarps && p.warps_m == kWarpgroupWarps && can_alternate(k, s)),
       "alternate is for tiles that one warpgroup of 4 warps can compute"},
      {!p.alternate || goes_with_alternate(p),
       "alternate needs persistent and copy_warps, and goes neither with dynamic nor with turns"},
      {p.persistent || !p.dynamic, "dynamic needs persistent"},
      {p.persistent || !p.tma_store, "tma_store needs persistent"},
      {p.wgmma || !p.tma_loads, "tma_loads needs wgmma"},
      {!p.dynamic || !starts_early(k), "a kernel that waits for the one before it is not dynamic"},
      {!p.dynamic || !p.multicast, "tiles by a counter (dynamic) are not shared (multicast)"},
      {p.copy_warps == 0 || p.copy_warps == 1 || p.copy_warps == kWarpgroupWarps,
       "copy_warps is 0, 1 or 4"},
      {p.registers == 0 ||
           (p.copy_warps == kWarpgroupWarps && p.registers % target.register_unit == 0 &&
            p.copy_registers(target) >= target.least_setmaxnreg),
       "registers is a multiple of 8, needs 4 copy_warps, and leaves 24 to a thread of those"},
      {p.registers == 0 || p.registers > p.registers_at_entry(target),
       "registers is more than all have at the entry"},
  };
  for (const auto& [holds, rule] : kRules)
    if (!holds) refuse_plan(k, p.str(), rule, asked_at);
}

}  // namespace

bool plan(Kernel& kernel, PassContext& context) {
  if (kernel.info.cluster > 1 && !kernel.info.target->has_clusters)
    fail(Mistake::no_clusters, kernel[kernel.terminator(kernel.launch())].loc, {}, kernel.info.name,
         kernel.info.cluster, kernel.info.target.name());
  const bool chosen = !context.plan && context.plan_changes.empty();
  const bool swapped = swap_if_wanted(kernel, context);
  const int splits = split_as_asked(kernel, context);
  if (!context.plan) {
    context.plan = make_plan(kernel, wants_tma_loads(kernel, context));
    const bool was_wgmma = context.plan->wgmma;
    context.plan->alternate = asks_for(kernel, AttrName::alternate);
    context.plan->tma_loads = asks_for(kernel, AttrName::tma_loads);
    context.plan->change(context.plan_changes);
    context.plan->swap = swapped;
    context.plan->splits = splits;
    if (context.plan->alternate) alternate_if_possible(kernel, context);
    drop_tma_loads_unless_possible(kernel, context);
    if (!context.plan->wgmma) drop_wgmma_fields(kernel, was_wgmma, context);
    if (context.plan->warps < 8) context.plan->turns = false;
    drop_persistent_in_clusters(kernel, context);
    if (!context.plan->persistent || starts_early(kernel)) context.plan->dynamic = false;
    if (!context.plan->persistent) context.plan->overlap_tiles = false;
    drop_multicast_unless_possible(kernel, context);
    drop_tma_store_unless_possible(kernel, context);
  }
  if (!chosen) require_legal(*context.plan, kernel, context.changed_at);
  kernel.info.threads = 32 * context.plan->warps;
  kernel.info.min_ctas = context.plan->min_ctas;
  context.remark(Remark::Kind::Analysis, {}, "plan", {{"plan", context.plan->str()}});
  if (chosen)
    for (std::string& why : plan_reasons(*context.plan, kernel))
      context.remark(Remark::Kind::Analysis, {}, std::move(why));
  return true;
}

}  // namespace tegula::ir
