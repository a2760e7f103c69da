// Chooses warps, stages and the partition of the accumulators. Before and after: tile form; the
// plan is in the context, and kernel.info.threads follows from it.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>

#include "ir/analysis/multicast_loads.h"
#include "ir/analysis/tma_access.h"
#include "ir/analysis/tma_store.h"
#include "ir/analysis/toeplitz.h"
#include "ir/passes/mma_loop/operand_loads.h"
#include "ir/passes/schedule/dot_graph_plan.h"
#include "ir/passes/schedule/kernel_summary.h"
#include "ir/passes/schedule/live_tiles.h"
#include "ir/passes/schedule/plan_reasons.h"
#include "ir/passes/schedule/producer_warps.h"
#include "ir/passes/schedule/swap_ab.h"
#include "ir/pipeline.h"
#include "support/errors.h"

namespace tegula::ir {
namespace {

constexpr int kMaxStages = 4;
/// Maximum number of stages in ping-pong mode, where a stage is half as large; six leave shared
/// memory for the epilogue.
constexpr int kMaxPingpongStages = 6;
/// Columns of an epilogue subtile: as many as leave registers for the epilogue's operands next to
/// the largest accumulator.
constexpr int kEpilogueTileN = 32;

/// Number of warps per SM that saturates its memory bandwidth, and the registers per thread that
/// tiles may occupy. With 32 warps a thread has 64; addresses and intermediate values use the rest.
constexpr int kBusyWarps = 32, kHeldRegisters = 48;
/// The same for kernels that sort, which need registers for keys and indices: 128 per thread.
constexpr int kSortingWarps = 16, kSortRegisters = 100;

/// Returns the largest number of warps, at most `most`, for which each warp has an equal number of
/// rows that is a multiple of 16.
int warps_for_rows(std::int64_t rows, std::int64_t most) {
  for (std::int64_t warps = most; warps > 1; --warps)
    if (rows % (warps * kWarpRows) == 0) return static_cast<int>(warps);
  return 1;
}

/// Returns the number of warps for which a thread holds about `elements` elements of the tile.
int warps_for(std::int64_t tile, std::int64_t elements) {
  const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(1, tile / (32 * elements)));
  return static_cast<int>(std::clamp<std::uint64_t>(std::bit_floor(wanted), 1, 16));
}

/// Returns the number of elements of the largest tile per thread in kernels without MMAs. With 32,
/// four or more 16-byte accesses are in flight, and fewer warps synchronize at a row's barriers
/// than with 16. Long computations without such barriers get fewer elements: they would otherwise
/// need registers for all elements at once and leave few warps to hide their latency. Ops that are
/// computed once per diagonal are not counted, because they benefit from many registers per thread.
std::int64_t elements_per_thread(const Kernel& k, const KernelSummary& s) {
  constexpr std::int64_t kUsual = 32, kOfLongComputations = 8, kLong = 24;
  std::int64_t operations = 0;
  bool has_exchange = false;
  ToeplitzAnalysis diagonals(k);
  walk(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    has_exchange = has_exchange || d.is(Opcode::For, Opcode::While) ||
                   (!d.operands.empty() && k.type(d.operands[0]).is_tile() &&
                    info(d.opcode).family == Family::Tile && !info(d.opcode).has(kReads) &&
                    !info(d.opcode).has(kWrites) && !d.is(Opcode::Broadcast, Opcode::ExpandDims));
    const bool is_whole = !d.results.empty() && k.type(d.results[0]).is_tile() &&
                          k.type(d.results[0]).count() == s.max_tile_elems;
    if (!is_whole || !info(d.opcode).is_elementwise()) return;
    const bool is_of_diagonal = diagonals.of(d.results[0]) == ToeplitzKind::computed;
    operations += is_of_diagonal ? 0 : 1;
  });
  return !has_exchange && operations >= kLong ? kOfLongComputations : kUsual;
}

/// Returns true if a mainloop of the kernel's body has equal trip counts for all tiles and loads a
/// box that two neighbouring tiles share and that can be split for multicast.
bool can_multicast(const Kernel& k, const Plan& p) {
  if (has_balanced_pairs(k) || k.info.cluster != 1 || !k.info.target->has_clusters) return false;
  PassContext context;
  context.plan = p;
  context.plan->multicast = true;
  return std::ranges::any_of(loops_of(k), [&](OpId loop) {
    if (k[loop].parent != k.body() || !first_dot(k, k[loop].regions[0])) return false;
    const auto graph = dot_graph(k, loop, p.num_warps, context);
    MulticastLoads neighbours(k, loop);
    return graph && neighbours.have_equal_trip_counts() &&
           std::ranges::any_of(graph->loads, [&](const OperandLoad& l) {
             return !l.dots.empty() && is_multicast_splittable(k, k[l.load]) &&
                    neighbours.may_multicast(l.load);
           });
  });
}

/// Returns the bytes of all operand rings, including those of stationary operands.
std::int64_t ring_bytes(const DotNeeds& needs, const Plan& p) {
  const int late = p.late_stages > 0 ? p.late_stages : p.stages;
  return p.once_stages * needs.stationary_bytes +
         p.stages * (stage_bytes(needs, p) - needs.mma1_bytes) + late * needs.mma1_bytes;
}

/// Overlaps the first GEMM0 of a tile with the last GEMM1 of the previous tile if that is possible.
/// The operand of GEMM0 is then loaded early into a second slot, for which the ring of GEMM1 may
/// get one slot less. Without enough shared memory or registers, the overlap has no benefit
/// (bench/results/sweeps/2026-11-22-h200-tile-overlap.jsonl).
void overlap_epilogue_if_possible(Plan& plan, const KernelSummary& s, const TargetRow& target) {
  if (!plan.persistent || !plan.warp_scheduler_barrier || !s.has_trip ||
      s.accumulator_init_registers > 0)
    return;
  Plan overlapped = plan;
  overlapped.overlap_epilogue = true;
  overlapped.once_stages = 2;
  const auto fits = [&] { return ring_bytes(*s.dots, overlapped) <= target.ring_bytes(); };
  if (!fits() && plan.stages > 2) overlapped.late_stages = plan.stages - 1;
  if (fits()) plan = overlapped;
}

/// Returns true if TMA can execute a store that combines with memory: one instruction then combines
/// a whole box (bench/results/sweeps/2026-11-23-h200-choices.jsonl).
bool combines_by_tma(const Kernel& k) {
  return any_op(k, k.body(), [&](OpId op) {
    return k[op].opcode == Opcode::StoreView && k[op].attrs.has(AttrName::kind) &&
           why_not_tma_store(k, k[op]).empty();
  });
}

/// Returns true if TMA should store results by default. This applies only to persistent kernels; in
/// back-to-back GEMMs the staging buffer would take memory from the operand rings.
bool benefits_from_tma_store(const Kernel& k, const KernelSummary& s, const Plan& plan) {
  return plan.persistent && !s.back_to_back && combines_by_tma(k);
}

bool can_pingpong(const Kernel& k, const KernelSummary& s) {
  return s.are_gemms() && !s.back_to_back && k.info.cluster == 1 && !has_data_dependent_trips(k) &&
         s.mma_rows % kWgmmaRows == 0 && (s.mma_rows == kWgmmaRows || s.dots->are_row_stacked);
}

/// Returns the number of ring slots: those that the loop requests, or else a maximum beyond which
/// more have no benefit, limited by shared memory.
int ring_slots(const TargetRow& target, const KernelSummary& s, const Plan& p) {
  const int wanted = s.stages != 0 ? s.stages : p.pingpong ? kMaxPingpongStages : kMaxStages;
  const std::int64_t room =
      (target.ring_bytes() - s.dots->stationary_bytes) / stage_bytes(*s.dots, p);
  return static_cast<int>(std::min<std::int64_t>(wanted, room));
}

/// Returns a plan for GEMMs, or nothing if wgmma cannot compute them. Cooperative: all warps
/// compute one tile, 16 rows each. Ping-pong: one warpgroup computes a whole tile, one block of 64
/// rows after another, and two warpgroups compute tiles alternately.
std::optional<Plan> gemm_plan(const Kernel& k, const KernelSummary& s, bool tma_aux_loads,
                              bool pingpong = false) {
  const TargetRow& target = *k.info.target;
  if (!s.are_gemms() || (pingpong && !can_pingpong(k, s))) return std::nullopt;
  const bool has_known_trips = !has_data_dependent_trips(k);
  Plan plan;
  plan.wgmma = true;
  plan.pingpong = pingpong;
  plan.tma_aux_loads = tma_aux_loads;
  const std::int64_t rows = pingpong ? kWgmmaRows : s.mma_rows;
  plan.num_warps = plan.warps_m = static_cast<int>(rows / kWarpRows);
  plan.warps_n = 1;
  plan.warp_scheduler_barrier = s.back_to_back && plan.num_warps >= 8;
  plan.stages = ring_slots(target, s, plan);
  // A thread also keeps row statistics and addresses. One of the two emitters needs a few more
  // registers, as do addresses of odd widths; fragments of two iterations may be live at once.
  const std::int64_t fragments = s.dots->fragments,
                     needed = s.dots->accumulators * s.mma_rows / rows + fragments + 32;
  // If trip counts come from device memory, the producer warp needs its registers for that work.
  const std::int64_t held = has_known_trips && !pingpong ? s.accumulator_init_registers : 0;
  add_producer_warps(plan, k, needed + fragments + 32, needed + held + 24);
  // Two resident CTAs overlap without being persistent. The rings of a persistent kernel are never
  // empty and leave no memory for the staging of stores.
  plan.persistent = pingpong || (k.info.cluster == 1 && !k.info.persistent &&
                                 ring_bytes(*s.dots, plan) > target.shared_bytes_per_cta / 2);
  plan.dynamic_scheduler = plan.persistent && !uses_pdl(k) && !has_known_trips;
  overlap_epilogue_if_possible(plan, s, target);
  plan.stage_stores = !plan.persistent;
  plan.tma_store = benefits_from_tma_store(k, s, plan);
  if (plan.persistent) plan.epilogue_tile_n = kEpilogueTileN;
  // ptxas rejects an instruction that needs more registers than each thread has at kernel entry
  // (C7602).
  const std::int64_t of_one = s.max_accumulator_elems / s.mma_rows / 2 + kNonAccumulatorRegisters;
  if (plan.stages < 2 || needed > plan.registers_per_consumer(target) ||
      of_one > plan.registers_at_entry(target))
    return std::nullopt;
  return plan;
}

/// Returns the largest number of cp.async stages, at most `wanted`, that fits in shared memory.
int stages_that_fit(const Kernel& k, int wanted) {
  while (wanted > 1 && cp_async_ring_bytes(k, wanted) > k.info.target->shared_bytes_per_cta)
    --wanted;
  return wanted;
}

Plan make_plan(const Kernel& k, const KernelSummary& s, bool tma_aux_loads) {
  Plan plan;
  if (s.max_accumulator_elems == 0) {
    plan.num_warps = warps_that_fit(k, warps_for(s.max_tile_elems, elements_per_thread(k, s)));
    // While the threads of one CTA synchronize, other CTAs must have enough bytes in flight.
    const LiveTiles held = live_tiles(k, 32 * plan.num_warps);
    // Sorts need more registers, and compute more between their barriers.
    const bool has_sort =
        any_op(k, k.body(), [&](OpId op) { return k[op].opcode == Opcode::Sort; });
    if (held.has_exchange && held.registers <= (has_sort ? kSortRegisters : kHeldRegisters))
      plan.min_ctas_per_sm = std::max(1, (has_sort ? kSortingWarps : kBusyWarps) / plan.num_warps);
    return plan;
  }
  if (tma_aux_loads)
    if (const auto gemms = gemm_plan(k, s, true)) return *gemms;
  if (const auto gemms = gemm_plan(k, s, false)) return *gemms;
  if (const auto graph = dot_graph_plan(k, s)) return *graph;
  if (s.back_to_back) {
    plan.warps_m = warps_for_rows(s.mma_rows, 8);
    plan.num_warps = warps_that_fit(k, plan.warps_m);
    plan.warps_n = plan.num_warps / plan.warps_m;
    plan.stages = stages_that_fit(k, s.stages != 0 ? s.stages : 2);
    return plan;
  }
  plan.num_warps = warps_that_fit(k, std::clamp(warps_for(s.max_accumulator_elems, 64), 1, 8));
  plan.warps_m = plan.num_warps >= 4 ? 2 : plan.num_warps;
  plan.warps_n = plan.num_warps / plan.warps_m;
  plan.stages = stages_that_fit(k, s.stages != 0 ? s.stages : plan.stages);
  return plan;
}

/// Returns true if the GEMMs cannot use wgmma, e.g. because of too few rows, but their transposes
/// can.
bool benefits_from_swap_ab(const Kernel& k) {
  // Dots under a condition, or in a loop without a trip count, cannot become wgmma.
  if (any_op(k, k.body(),
             [&](OpId op) { return k[op].opcode == Opcode::Dot && !is_in_counted_loops(k, op); }))
    return false;
  const KernelSummary s = summarize(k);
  if (!k.info.target->has_wgmma || s.are_gemms() || s.back_to_back || s.max_accumulator_elems == 0)
    return false;
  Kernel other = clone(k);
  return swap_ab(other) && gemm_plan(other, summarize(other), false).has_value();
}

/// Transposes the GEMMs if that is requested or beneficial; returns true if they were transposed.
bool swap_if_wanted(Kernel& k, PassContext& context) {
  const auto requested =
      context.plan ? std::optional(context.plan->swap_ab) : wanted_fields(k, context).swap_ab;
  if (!requested.value_or(benefits_from_swap_ab(k))) return false;
  if (swap_ab(k)) return true;
  if (context.plan)
    refuse_plan(k, *context.plan, context.planned,
                "swap needs MMAs with loop-carried accumulators, and no cluster");
  context.remark(Remark::Kind::Missed, {}, "no swap A/B: no loop-carried accumulators");
  return false;
}

/// Resets the fields that need wgmma. Adds a remark instead of an error: requested fields may apply
/// to every kernel of a process, and most kernels are not GEMMs.
void drop_wgmma_fields(const Kernel& k, bool was_wgmma, PassContext& context) {
  Plan& p = *context.plan;
  const Plan before = p;
  p.producer_warps = p.consumer_registers = 0;
  p.persistent = p.warp_scheduler_barrier = p.dynamic_scheduler = p.multicast = p.pingpong =
      p.overlap_epilogue = p.tma_store = p.tma_aux_loads = false;
  if (p != before && !was_wgmma) context.remark(Remark::Kind::Missed, {}, wgmma_missed_remark(k));
}

/// Resets `persistent` in kernels with clusters, and in kernels with grid barriers, which
/// expand_grid_barriers has already made persistent.
void drop_persistent_in_clusters(const Kernel& k, PassContext& context) {
  const bool meets = k.info.persistent;
  if ((k.info.cluster == 1 && !meets) ||
      (!context.plan->persistent && !context.plan->dynamic_scheduler))
    return;
  context.plan->persistent = context.plan->dynamic_scheduler = false;
  context.remark(Remark::Kind::Missed, {},
                 meets ? "no tile scheduler: the kernel has a grid barrier"
                       : "not persistent: the kernel uses clusters");
}

/// Returns true if the kernel must not count its tiles in memory: it may start before the previous
/// kernel, which uses the same counter, has ended. Clusters that multicast do not use the counter.
bool may_not_count(const Kernel& k, const Plan& p) { return uses_pdl(k) && !p.multicast; }

/// Resets `multicast` unless the kernel is persistent and has loads to multicast. Only the tile
/// scheduler of a persistent kernel gives neighbouring tiles to the CTAs of a cluster.
void drop_multicast_unless_possible(const Kernel& k, PassContext& context) {
  Plan& p = *context.plan;
  if (!p.multicast || (p.persistent && can_multicast(k, p))) return;
  p.multicast = false;
  context.remark(Remark::Kind::Missed, {},
                 k.info.cluster > 1 ? "no multicast: the kernel uses clusters"
                                    : "no multicast: no operand that neighbouring tiles share");
}

/// Sets `dynamic_scheduler` for multicast kernels whose trip counts come from memory, so that the
/// producer thread reads them ahead of time, unless another scheduler is requested.
void resolve_scheduler(const Kernel& k, PassContext& context) {
  Plan& p = *context.plan;
  if (p.persistent && p.multicast && has_data_dependent_trips(k))
    p.dynamic_scheduler = wanted_fields(k, context).dynamic_scheduler.value_or(true);
  if (!p.persistent || may_not_count(k, p)) p.dynamic_scheduler = false;
}

void drop_tma_aux_loads_unless_possible(const Kernel& k, const KernelSummary& s,
                                        PassContext& context) {
  Plan& p = *context.plan;
  if (!p.tma_aux_loads) return;
  const bool has_any = s.dots && s.dots->other_bytes > 0;
  if (p.wgmma && has_any && ring_bytes(*s.dots, p) <= k.info.target->ring_bytes()) return;
  p.tma_aux_loads = false;
  if (s.max_accumulator_elems == 0) return;
  context.remark(Remark::Kind::Missed, {},
                 !k.info.target->has_tma
                     ? fmt::format("no auxiliary loads by TMA: {} has no TMA", k.info.target.name())
                 : !p.wgmma ? "no auxiliary loads by TMA: the MMAs are not wgmmas"
                 : !has_any ? "no auxiliary loads by TMA: the mainloops have none that TMA supports"
                            : "no auxiliary loads by TMA: the operands leave no shared memory");
}

/// Resets `tma_store` if no store qualifies or the staging buffers do not fit. To make them fit,
/// gives up the epilogue overlap and, in back-to-back GEMMs, slots of the operand rings, down to
/// two. The rings of a single GEMM keep their slots.
void drop_tma_store_unless_possible(const Kernel& k, const KernelSummary& s, PassContext& context) {
  Plan& p = *context.plan;
  if (!p.tma_store) return;
  const Schedule* requested = context.planned.schedule.get();
  const std::int64_t staged = p.persistent || requested ? staged_bytes(k, p, requested) : 0,
                     room = k.info.target->ring_bytes() - staged;
  const auto fits = [&] { return s.dots && ring_bytes(*s.dots, p) <= room; };
  const Plan before = p;
  if (p.overlap_epilogue) p.disable_epilogue_overlap();
  while (s.back_to_back && p.stages > 2 && !fits()) --p.stages;
  if (staged > 0 && fits()) return;
  p = before;
  p.tma_store = false;
  context.remark(Remark::Kind::Missed, {},
                 !p.persistent && !requested ? "no stores by TMA: the kernel is not persistent"
                 : staged == 0               ? "no stores by TMA: TMA supports none of the results"
                               : "no stores by TMA: the rings leave no shared memory");
}

/// Returns true if the other fields allow ping-pong: it needs a static scheduler and producer
/// warps.
bool is_compatible_with_pingpong(const Plan& p) {
  return p.wgmma && p.persistent && p.producer_warps > 0 && !p.dynamic_scheduler &&
         !p.warp_scheduler_barrier;
}

/// Returns the requested and preferred fields that apply to the chosen plan. Preferences for
/// multicast and TMA stores concern only single wgmma mainloops and are dropped silently for
/// others. Mainloops of gathered rows may multicast as well, and the kernel is then persistent.
PlanPatch applicable_fields(const Kernel& k, const PassContext& context, bool is_wgmma,
                            bool is_graph) {
  PlanPatch preferred = k.info.preferred;
  const bool pairs_gathers = is_graph && preferred.multicast.value_or(false) &&
                             gathers_alone_on_sm(k, *context.plan) &&
                             can_multicast(k, *context.plan);
  if (pairs_gathers) preferred.persistent = preferred.persistent.value_or(true);
  if (!is_wgmma || (is_graph && !pairs_gathers)) preferred.multicast.reset();
  if (!is_wgmma || is_graph) preferred.tma_store.reset();
  if (is_graph) preferred.tma_aux_loads.reset();
  return merged(preferred, context.planned.fields());
}

/// Replaces the plan by a ping-pong plan with the requested fields, or resets `pingpong`.
void pingpong_if_possible(const Kernel& k, const KernelSummary& s, PassContext& context) {
  auto plan = gemm_plan(k, s, context.plan->tma_aux_loads, true);
  if (plan) plan->apply(wanted_fields(k, context));
  if (plan && plan->pingpong && is_compatible_with_pingpong(*plan)) {
    plan->swap_ab = context.plan->swap_ab;
    context.plan = plan;
    return;
  }
  context.plan->pingpong = false;
  context.remark(Remark::Kind::Missed, {},
                 plan ? "no ping-pong: other fields of the plan exclude it"
                      : "no ping-pong: no MMAs whose tile one warpgroup can compute");
}

/// Returns true if elements in runs of `unit` can be partitioned over `warps` warps. A power of two
/// is always possible, because warps may hold replicas.
bool can_partition(std::int64_t elements, std::int64_t unit, int warps) {
  const auto count = static_cast<unsigned>(std::max(warps, 1));
  const std::int64_t odd = count >> std::countr_zero(count);
  return odd == 1 || elements % (unit * odd) == 0;
}

/// Returns true if the plan is for a graph of dots: for loops that are not GEMMs, or for a GEMM
/// whose number of warps differs from one per 16 rows.
bool is_of_graph(const Kernel& k, const KernelSummary& s, const Plan& p) {
  const bool is_of_rows = s.are_gemms() && (p.pingpong || p.num_warps * kWarpRows == s.mma_rows);
  return !is_of_rows && dot_graph_fits(k, p);
}

/// Divides the warps along rows and columns by default if only their total number is requested.
void divide_warps(Plan& p, const PlanPatch& requested) {
  if (!requested.num_warps || requested.warps_m || requested.warps_n ||
      p.warps_m * p.warps_n == p.num_warps)
    return;
  p.warps_m = p.wgmma ? p.num_warps : 0;
  p.warps_n = p.wgmma ? 1 : 0;
}

/// Throws unless the passes can execute a plan that the user specified or modified.
void require_legal(const Plan& p, const Kernel& k, const KernelSummary& s,
                   const PlanRequest& requested) {
  const TargetRow& target = *k.info.target;
  const bool is_graph = is_of_graph(k, s, p);
  const struct {
    bool holds;
    const char* rule;
  } kRules[] = {
      {p.num_warps >= 1 && p.consumer_warps() + p.producer_warps <= 32,
       "num_warps + producer_warps must be 1 to 32"},
      {p.min_ctas_per_sm >= 1, "min_ctas_per_sm is at least 1"},
      {p.stages >= (p.wgmma ? 2 : 1) && p.stages <= 16, "stages is 1 to 16, with wgmma 2 to 16"},
      {p.warps_m == 0 || p.warps_m * p.warps_n == p.num_warps,
       "num_warps must be warps_m * warps_n"},
      {p.wgmma || (can_partition(s.common_rows, kWarpRows, p.warps_m) &&
                   can_partition(s.common_columns, kMmaColumns, p.warps_n)),
       "warps_m and warps_n cannot partition the rows and columns of the MMAs"},
      {!p.wgmma || is_graph || s.are_gemms(), "wgmma=1 needs MMAs that wgmma can compute"},
      {!p.wgmma || p.pingpong || is_graph ||
           (p.warps_n == 1 && p.num_warps * kWarpRows == s.mma_rows),
       "with wgmma a warp must have 16 rows, and warps_n must be 1"},
      {p.epilogue_tile_n >= 0, "epilogue_tile_n is at least 0"},
      {p.once_stages >= 1, "once_stages must be at least 1"},
      {p.late_stages == 0 || p.late_stages >= 2, "late_stages is 0 or at least 2"},
      {!p.overlap_epilogue || (p.wgmma && p.persistent),
       "overlap_epilogue needs wgmma and persistent"},
      {!p.warp_scheduler_barrier || (p.wgmma && p.num_warps >= 8),
       "warp_scheduler_barrier is for two or more warpgroups' wgmmas"},
      {p.wgmma || (p.producer_warps == 0 && !p.persistent),
       "producer_warps and persistent need wgmma"},
      {k.info.cluster == 1 || !p.persistent, "a kernel with clusters cannot be persistent"},
      {!p.multicast || (p.persistent && can_multicast(k, p)),
       "multicast is for persistent kernels in which neighbouring tiles share what a loop loads"},
      {!p.pingpong ||
           (p.num_warps == kWarpgroupWarps && p.warps_m == kWarpgroupWarps && can_pingpong(k, s)),
       "pingpong is for tiles that one warpgroup of 4 warps can compute"},
      {!p.pingpong || is_compatible_with_pingpong(p),
       "pingpong needs persistent and producer_warps, and excludes dynamic_scheduler and "
       "warp_scheduler_barrier"},
      {p.persistent || !p.dynamic_scheduler, "dynamic_scheduler needs persistent"},
      {p.persistent || !p.tma_store || is_graph || requested.schedule,
       "tma_store needs persistent"},
      {p.wgmma || !p.tma_aux_loads, "tma_aux_loads needs wgmma"},
      {!p.dynamic_scheduler || !may_not_count(k, p),
       "a kernel with grid_dependency_wait supports dynamic_scheduler only with multicast"},
      {p.producer_warps == 0 || p.producer_warps == 1 || p.producer_warps == kWarpgroupWarps,
       "producer_warps must be 0, 1 or 4"},
      {p.consumer_registers == 0 || (p.producer_warps == kWarpgroupWarps &&
                                     p.consumer_registers % target.register_unit == 0 &&
                                     p.producer_registers(target) >= target.least_setmaxnreg),
       "consumer_registers must be a multiple of 8, needs 4 producer_warps, and must leave them 24 "
       "registers per thread"},
      {p.consumer_registers == 0 || p.consumer_registers > p.registers_at_entry(target),
       "consumer_registers must exceed the registers of a thread at entry"},
  };
  for (const auto& [holds, rule] : kRules)
    if (!holds) refuse_plan(k, p, requested, rule);
}

}  // namespace

bool plan(Kernel& kernel, PassContext& context) {
  if (kernel.info.cluster > 1 && !kernel.info.target->has_clusters) {
    const OpId grid = kernel.terminator(kernel.launch());
    fail(ErrorId::no_clusters, grid ? kernel[grid].loc : Loc(), {}, kernel.info.name,
         kernel.info.cluster, kernel.info.target.name());
  }
  const bool chosen = !context.plan && context.planned.is_empty();
  const bool swap_ab = swap_if_wanted(kernel, context);
  const KernelSummary s = summarize(kernel);
  if (!context.plan) {
    context.plan = make_plan(kernel, s, prefers_tma_aux_loads(kernel, context));
    const bool was_wgmma = context.plan->wgmma;
    const bool is_graph = was_wgmma && is_of_graph(kernel, s, *context.plan);
    const PlanPatch fields = applicable_fields(kernel, context, was_wgmma, is_graph);
    context.plan->apply(fields);
    divide_warps(*context.plan, fields);
    context.plan->swap_ab = swap_ab;
    if (context.plan->pingpong) pingpong_if_possible(kernel, s, context);
    if (!is_graph) drop_tma_aux_loads_unless_possible(kernel, s, context);
    if (!context.plan->wgmma) drop_wgmma_fields(kernel, was_wgmma, context);
    if (context.plan->num_warps < 8) context.plan->warp_scheduler_barrier = false;
    drop_persistent_in_clusters(kernel, context);
    if (!context.plan->persistent) context.plan->overlap_epilogue = false;
    drop_multicast_unless_possible(kernel, context);
    resolve_scheduler(kernel, context);
    if (!is_graph) drop_tma_store_unless_possible(kernel, s, context);
  }
  if (!chosen) require_legal(*context.plan, kernel, s, context.planned);
  kernel.info.threads = 32 * context.plan->num_warps;
  kernel.info.min_ctas_per_sm = context.plan->min_ctas_per_sm;
  context.remark(Remark::Kind::Analysis, {}, "plan", {{"plan", context.plan->str()}});
  if (chosen)
    for (std::string& why : plan_reasons(*context.plan, kernel))
      context.remark(Remark::Kind::Analysis, {}, std::move(why));
  else if (!context.plan->wgmma && s.max_accumulator_elems > 0)
    context.remark(
        Remark::Kind::Analysis, {},
        s.dots ? "wgmma=0: the given plan does not use it" : wgmma_missed_remark(kernel));
  return true;
}

}  // namespace tegula::ir
