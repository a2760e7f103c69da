// Chooses warps, stages and the partition of the accumulators. Before and after: tile form; the
// plan is in the context, and kernel.info.threads follows from it.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_set>

#include "ir/analysis/bounds.h"
#include "ir/analysis/held_registers.h"
#include "ir/analysis/neighbours.h"
#include "ir/analysis/tma_access.h"
#include "ir/analysis/tma_store.h"
#include "ir/matrix_type.h"
#include "ir/pipeline.h"
#include "tegula/error.h"

namespace tegula::ir {
namespace {

/// sm_90a: products of loops can be wgmmas fed by TMA.
constexpr std::int64_t kRowsPerWarp = 16, kGroupRows = 64, kMostRows = 256;
/// The narrowest swizzle: what TMA brings of a row is a multiple of it.
constexpr std::int64_t kSwizzleBytes = 32;
/// Of the 227 KiB of a CTA, less what mbarriers and alignment take.
constexpr std::int64_t kRingBytes = 225 * 1024;
constexpr int kMaxStages = 4;
/// Of steps half as large; leaves an epilogue some memory.
constexpr int kMaxAlternatingStages = 6;
/// Of a warpgroup, and the rows of its instructions.
constexpr int kGroupWarps = 4;
/// What comes with terms of columns: a factor, and what is added to rows.
constexpr int kBesideTerms = 4;
/// Of a thread, by setmaxnreg (PTX ISA); and what one that copies has use for.
constexpr int kLeastRegisters = 24, kMostRegisters = 240, kCopyRegisters = 40;
/// What a wgmma needs beside its sums: addresses, and what ptxas keeps.
constexpr int kBesideSums = 26;
/// Of a block of results: what a thread holds of a few operands beside the largest sums.
constexpr int kStoreColumns = 32;

/// Warps on an SM that keep its memory busy, and what each thread may hold of the 64 registers
/// that leaves it: addresses and what is computed on the way need the others.
constexpr int kBusyWarps = 32, kHeldRegisters = 48;

struct Survey {
  std::int64_t largest_tile = 1;     ///< elements of the largest loaded, stored or reduced tile
  std::int64_t largest_product = 0;  ///< elements of the largest dot accumulator
  std::int64_t product_rows = 0;
  bool has_steps = false;  ///< loops with products run at least once, as some `assume` says
  bool chained = false;    ///< a dot's operand depends on another dot: rows must stay within a warp
  bool wgmma = true;       ///< every dot can be one
  bool stacks = true;      ///< and a thread's registers of 64 rows come before those of the next 64
  std::int64_t accumulators =
      0;                        ///< 32-bit registers a thread needs for all of them, 16 rows a warp
  std::int64_t fragments = 0;   ///< registers a thread needs for computed operands
  std::int64_t first_sums = 0;  ///< those for what sums begin with in each turn of their loop
  std::int64_t step_bytes = 0;  ///< of the operands that one step of a loop loads
  std::int64_t last_bytes = 0;  ///< of those, its last product's
  std::int64_t once_bytes = 0;  ///< that it brings before
  int stages = 0;               ///< what a loop asks for; 0: nothing
};

/// load_view [permute] in the dot's region gives operand `i`: the load, or nothing.
OpId load_of(const Kernel& k, const OpData& dot, int i) {
  OpId def = k[dot.operands[static_cast<std::size_t>(i)]].def;
  if (def && k[def].opcode == Opcode::Permute) def = k[k[def].operands[0]].def;
  return def && k[def].opcode == Opcode::LoadView && k[def].parent == dot.parent ? def : OpId();
}

/// TMA can bring the operand under a swizzle, contiguous along a dimension that wgmma takes.
bool is_tma_operand(const Kernel& k, const OpData& dot, int i) {
  const OpId def = load_of(k, dot, i);
  if (!def) return false;
  const OpId permute = k[dot.operands[static_cast<std::size_t>(i)]].def;
  std::int64_t order[] = {0, 1};
  if (permute != def) std::ranges::copy(k[permute].attrs.ints(AttrName::order), order);
  const Type view = k.type(k[def].operands[0]), tile = k.type(k[def].results[0]);
  const auto axes = k[def].attrs.ints(AttrName::axes);
  const MatrixType* type = matrix_type(k, dot);
  if (!type || !is_tma_box(view, axes, tile)) return false;
  const int k_dim = i == 0 ? 1 : 0;
  for (std::size_t t = 0; t < axes.size(); ++t)
    if (view.view_facts().strides[static_cast<std::size_t>(axes[t])] == 1)
      return tile.shape()[t] * type->bits / 8 % kSwizzleBytes == 0 &&
             (type->any_major() || order[k_dim] == static_cast<std::int64_t>(t));
  return false;
}

/// Whether this dot can be a wgmma: B (and A, unless computed) brought by TMA in a loop that
/// writes no memory, 64 rows a warpgroup.
bool is_wgmma(const Kernel& k, OpId op) {
  const OpData& d = k[op];
  const OpId loop = k[d.parent].owner;
  if (!loop || k[loop].opcode != Opcode::For) return false;
  const MatrixType* type = matrix_type(k, d);
  const Type acc = k.type(d.results[0]);
  const std::int64_t m = acc.shape()[0], depth = k.type(d.operands[0]).shape()[1];
  if (!type || m % kGroupRows != 0 || m > kMostRows || !type->has_columns(acc.shape()[1]) ||
      depth % type->step() != 0)
    return false;
  bool writes = false;
  walk(k, d.parent, [&](OpId o) { writes = writes || info(k[o].opcode).has(kWrites); });
  return !writes && is_tma_operand(k, d, 1) && (is_tma_operand(k, d, 0) || !load_of(k, d, 0));
}

/// A dot whose first operand is computed from another dot's result.
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

/// Loaded in front of the loop, perhaps through a permute.
bool is_invariant_load(const Kernel& k, Value v, RegionId loop_body) {
  OpId def = k[v].def;
  if (def && k[def].opcode == Opcode::Permute) def = k[k[def].operands[0]].def;
  return def && k[def].opcode == Opcode::LoadView && k[def].parent != loop_body;
}

/// A row of numbers that sums begin with in each turn of the loop: a thread keeps its columns.
bool is_repeated_row(const Kernel& k, Value acc, RegionId loop_body) {
  const OpId def = k[acc].def;
  return def && k[def].opcode == Opcode::Broadcast && k[def].parent != loop_body &&
         k.type(k[def].operands[0]).shape()[0] == 1;
}

Survey survey(const Kernel& k) {
  Survey s;
  const Bounds bounds(k);
  std::unordered_set<OpId> counted;  // several products may share a load
  walk(k, k.body(), [&](OpId op) {
    const OpData& d = k[op];
    if (d.opcode == Opcode::For)
      s.stages = std::max(s.stages, static_cast<int>(d.attrs.i(AttrName::stages, 0)));
    for (Value v : d.results)
      if (k.type(v).is_tile()) s.largest_tile = std::max(s.largest_tile, k.type(v).count());
    if (d.opcode != Opcode::Dot) return;
    const Type acc = k.type(d.results[0]);
    if (acc.count() > s.largest_product) s.product_rows = acc.shape()[0];
    s.largest_product = std::max(s.largest_product, acc.count());
    s.chained = s.chained || depends_on_dot(k, d.operands[0], 0);
    if (const OpId loop = k[d.parent].owner; loop && k[loop].opcode == Opcode::For)
      s.has_steps = bounds.is_less(k[loop].operands[0], k[loop].operands[1]);
    s.wgmma = s.wgmma && is_wgmma(k, op);
    s.stacks = s.stacks && std::has_single_bit(static_cast<std::uint64_t>(acc.shape()[1])) &&
               (is_tma_operand(k, d, 0) || is_invariant_load(k, d.operands[0], d.parent));
    s.accumulators += acc.shape()[1] / 2;
    if (is_repeated_row(k, d.operands[2], d.parent))
      s.first_sums += acc.shape()[1] / 4 + kBesideTerms;
    const Type a = k.type(d.operands[0]);
    if (is_invariant_load(k, d.operands[0], d.parent))
      s.once_bytes += a.count() * size_bytes(a.dtype());
    else if (!is_tma_operand(k, d, 0))
      s.fragments += a.shape()[1] * size_bits(a.dtype()) / 64;
    s.last_bytes = 0;
    for (int i = 0; i < 2; ++i) {
      const Type operand = k.type(d.operands[static_cast<std::size_t>(i)]);
      if (is_tma_operand(k, d, i) && counted.insert(load_of(k, d, i)).second)
        s.last_bytes += operand.count() * size_bytes(operand.dtype());
    }
    s.step_bytes += s.last_bytes;
  });
  return s;
}

/// The value is computed from what is read from memory.
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

/// Lists, tables and lengths in memory say how many products a tile needs.
bool is_work_read(const Kernel& k) {
  std::unordered_set<Value> seen;
  bool found = false;
  walk(k, k.body(), [&](OpId op) {
    const OpId loop = k[k[op].parent].owner;
    if (k[op].opcode != Opcode::Dot || !loop || k[loop].opcode != Opcode::For) return;
    for (std::size_t bound : {0U, 1U}) found = found || is_read(k, k[loop].operands[bound], seen);
  });
  return found;
}

/// It may be started before the kernel in front of it has ended, which counts its tiles at the same
/// place.
bool starts_early(const Kernel& k) {
  bool found = false;
  walk(k, k.body(), [&](OpId op) { found = found || k[op].opcode == Opcode::GridWait; });
  return found;
}

/// As many warps of equally many 16 rows, one behind the other.
int warps_for_rows(std::int64_t rows, std::int64_t most) {
  for (std::int64_t warps = most; warps > 1; --warps)
    if (rows % (warps * kRowsPerWarp) == 0) return static_cast<int>(warps);
  return 1;
}

/// Enough warps that a thread holds about `elements` of the largest tile.
int warps_for(std::int64_t tile, std::int64_t elements) {
  const auto wanted = static_cast<std::uint64_t>(std::max<std::int64_t>(1, tile / (32 * elements)));
  return static_cast<int>(std::clamp<std::uint64_t>(std::bit_floor(wanted), 1, 16));
}

/// The most that those which compute can take over, if each that copies keeps `kept`.
int registers_beside(const Plan& plan, int kept) {
  const int warps = plan.computing_warps();
  const int all = plan.registers_at_entry() * (warps + plan.copy_warps);
  return std::min(kMostRegisters, (all - kept * plan.copy_warps) / warps / 8 * 8);
}

/// One warp that copies, or, where those that compute have use for more registers than it leaves
/// them, a warpgroup that gives up its own, if that is more: all of them if they are needed.
void add_copy_warps(Plan& plan, std::int64_t useful, std::int64_t needed) {
  plan.copy_warps = 1;
  if (useful <= plan.registers_at_entry()) return;
  Plan given = plan;
  given.copy_warps = 4;
  given.registers = registers_beside(given, kCopyRegisters);
  if (needed > given.registers) given.registers = registers_beside(given, kLeastRegisters);
  if (given.registers > given.registers_at_entry()) plan = given;
}

/// The grid asks for it: for multicast (in another order than that of `pairs`), to alternate, or
/// for stores by TMA.
bool asks_for(const Kernel& k, AttrName what) {
  bool asked = false;
  walk(k, k.body(), [&](OpId op) {
    asked = asked || (k[op].opcode == Opcode::ProgramId && k[op].attrs.i(what) == 1);
  });
  return asked;
}

/// A product loop of the kernel's body, as long for every tile, loads something that two
/// neighbouring tiles share and that can be brought in halves.
bool can_multicast(const Kernel& k) {
  bool pairs = false, any = false;
  walk(k, k.body(), [&](OpId op) { pairs = pairs || k[op].attrs.i(AttrName::pairs) == 1; });
  if (pairs || k.info.cluster != 1 || !k.info.target.starts_with("sm_9")) return false;
  walk(k, k.body(), [&](OpId op) {
    const OpId loop = k[k[op].parent].owner;
    if (any || k[op].opcode != Opcode::Dot || !loop || k[loop].parent != k.body()) return;
    Neighbours neighbours(k, loop);
    for (int i = 0; i < 2; ++i) {
      const OpId load = load_of(k, k[op], i);
      any = any || (load && is_tma_operand(k, k[op], i) && neighbours.have_equal_steps() &&
                    can_be_halved(k.type(k[load].operands[0]), k[load].attrs.ints(AttrName::axes),
                                  k.type(k[load].results[0])) &&
                    neighbours.may_share(load));
    }
  });
  return any;
}

/// A tile's first product beside the last of the one before needs its operand early: a second slot,
/// for which the late product's ring may have one less. Where there is no room, or no register to
/// spare, products beside each other gain nothing
/// (bench/results/sweeps/2026-11-22-h200-tile-overlap.jsonl).
void overlap_tiles_if_possible(Plan& plan, const Survey& s) {
  if (!plan.persistent || !plan.turns || !s.has_steps || s.first_sums > 0) return;
  const auto fits = [&](int late_stages) {
    return plan.stages * (s.step_bytes - s.last_bytes) + late_stages * s.last_bytes +
               2 * s.once_bytes <=
           kRingBytes;
  };
  if (!fits(plan.stages) && (plan.stages == 2 || !fits(plan.stages - 1))) return;
  plan.overlap_tiles = true;
  plan.once_stages = 2;
  if (!fits(plan.stages)) plan.late_stages = plan.stages - 1;
}

/// All warps compute, 16 rows each; the ring is as deep as shared memory allows.
std::optional<Plan> wgmma_plan(const Kernel& k, const Survey& s) {
  if (!k.info.target.starts_with("sm_90") || !s.wgmma || s.step_bytes == 0) return std::nullopt;
  Plan plan;
  plan.wgmma = true;
  plan.warps = plan.warps_m = static_cast<int>(s.product_rows / kRowsPerWarp);
  plan.warps_n = 1;
  plan.turns = s.chained && plan.warps >= 8;
  plan.stages = static_cast<int>(std::min<std::int64_t>(
      s.stages != 0 ? s.stages : kMaxStages, (kRingBytes - s.once_bytes) / s.step_bytes));
  // What else the thread keeps: rows' state, addresses. Of the two emitters' code, one takes a
  // little more, and addresses of odd widths do; two steps' fragments may be alive at once.
  const std::int64_t needed = s.accumulators + s.fragments + 32;
  // Who copies has use for its own where lists in memory say what.
  const std::int64_t held = is_work_read(k) ? 0 : s.first_sums;
  add_copy_warps(plan, needed + s.fragments + 32, needed + held + 24);
  // Two CTAs on an SM overlap by themselves. Rings that are never empty leave no place to stage
  // stores in.
  plan.persistent = k.info.cluster == 1 &&
                    s.once_bytes + plan.stages * s.step_bytes > shared_limit(k.info.target) / 2;
  plan.dynamic = plan.persistent && !starts_early(k) && is_work_read(k);
  overlap_tiles_if_possible(plan, s);
  plan.stage_stores = !plan.persistent;
  plan.multicast = asks_for(k, AttrName::multicast);
  plan.tma_store = asks_for(k, AttrName::tma_store);
  if (plan.persistent) plan.store_columns = kStoreColumns;
  // ptxas takes no single instruction of more registers than all have at the entry (C7602).
  const std::int64_t of_one = s.largest_product / s.product_rows / 2 + kBesideSums;
  if (plan.stages < 2 || needed > plan.computing_registers() || of_one > plan.registers_at_entry())
    return std::nullopt;
  return plan;
}

bool can_alternate(const Kernel& k, const Survey& s) {
  return k.info.target.starts_with("sm_90") && s.wgmma && s.step_bytes > 0 &&
         s.largest_product > 0 && !s.chained && k.info.cluster == 1 && !is_work_read(k) &&
         s.product_rows % kGroupRows == 0 && (s.product_rows == kGroupRows || s.stacks);
}

/// A tile is one warpgroup's work, all its 64 rows after each other; two take tiles in turn.
std::optional<Plan> alternating_plan(const Kernel& k) {
  const Survey s = survey(k);
  if (!can_alternate(k, s)) return std::nullopt;
  Plan plan;
  plan.wgmma = plan.persistent = plan.alternate = true;
  plan.warps = plan.warps_m = kGroupWarps;
  plan.warps_n = 1;
  plan.stages =
      static_cast<int>(std::min<std::int64_t>(s.stages != 0 ? s.stages : kMaxAlternatingStages,
                                              (kRingBytes - s.once_bytes) / s.step_bytes));
  const std::int64_t needed = s.accumulators * s.product_rows / kGroupRows + s.fragments + 32;
  add_copy_warps(plan, needed + s.fragments + 32, needed + 24);
  plan.stage_stores = false;
  plan.store_columns = kStoreColumns;
  plan.multicast = asks_for(k, AttrName::multicast);
  plan.tma_store = asks_for(k, AttrName::tma_store);
  if (plan.stages < 2 || needed > plan.computing_registers()) return std::nullopt;
  return plan;
}

/// Of `wanted` slots, those that shared memory has room for.
int stages_that_fit(const Kernel& k, const Survey& s, int wanted) {
  const std::int64_t fit = shared_limit(k.info.target) / std::max<std::int64_t>(1, s.step_bytes);
  return static_cast<int>(std::clamp<std::int64_t>(fit, 1, wanted));
}

Plan make_plan(const Kernel& k) {
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
  if (const auto hopper = wgmma_plan(k, s)) return *hopper;
  if (s.chained) {
    plan.warps = plan.warps_m = warps_for_rows(s.product_rows, 8);
    plan.warps_n = 1;
    plan.stages = stages_that_fit(k, s, s.stages != 0 ? s.stages : 2);
    return plan;
  }
  plan.warps = std::clamp(warps_for(s.largest_product, 64), 1, 8);
  plan.warps_m = plan.warps >= 4 ? plan.warps / 2 : plan.warps;
  plan.warps_n = plan.warps / plan.warps_m;
  if (plan.warps == 8) plan.warps_m = 2, plan.warps_n = 4;
  plan.stages = stages_that_fit(k, s, s.stages != 0 ? s.stages : plan.stages);
  return plan;
}

/// Changes are meant for every kernel of a process, and most are not for products.
void without_wgmma_fields(Plan& p) {
  p.copy_warps = p.registers = 0;
  p.persistent = p.turns = p.dynamic = p.multicast = p.alternate = p.overlap_tiles = p.tma_store =
      false;
}

/// Tiles side by side go to a cluster only where they are dealt.
void drop_multicast_unless_possible(const Kernel& k, PassContext& context) {
  Plan& p = *context.plan;
  if (!p.multicast || (p.persistent && !p.dynamic && can_multicast(k))) return;
  p.multicast = false;
  context.remark(Remark::Kind::Missed, {},
                 p.dynamic ? "no multicast: tiles come from a counter"
                           : "no multicast: no operand that neighbouring tiles share");
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
  const Survey s = survey(k);
  const std::int64_t staged = p.persistent ? staged_bytes(k, p) : 0;
  const auto fits = [&] { return s.once_bytes + p.stages * s.step_bytes + staged <= kRingBytes; };
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
  auto plan = alternating_plan(k);
  if (plan) plan->change(context.plan_changes);
  if (plan && plan->alternate && goes_with_alternate(*plan)) {
    context.plan = plan;
    return;
  }
  context.plan->alternate = false;
  context.remark(Remark::Kind::Missed, {},
                 plan ? "tiles do not alternate: not with other fields of the plan"
                      : "tiles do not alternate: no products of which a warpgroup can have a tile");
}

/// A plan that somebody else made or changed must be one that the passes can carry out.
void require_legal(const Plan& p, const Kernel& k) {
  const Survey s = survey(k);
  const bool may_be_wgmma =
      k.info.target.starts_with("sm_90") && s.wgmma && s.step_bytes > 0 && s.largest_product > 0;
  const struct {
    bool holds;
    const char* rule;
  } kRules[] = {
      {p.warps >= 1 && p.computing_warps() + p.copy_warps <= 32,
       "warps and copy_warps are 1 to 32 together"},
      {p.min_ctas >= 1, "min_ctas is at least 1"},
      {p.stages >= (p.wgmma ? 2 : 1) && p.stages <= 16, "stages is 1 to 16, with wgmma 2 to 16"},
      {p.warps_m == 0 || p.warps_m * p.warps_n == p.warps, "warps is warps_m times warps_n"},
      {!p.wgmma || may_be_wgmma, "wgmma=1 needs products that wgmma can compute"},
      {!p.wgmma || p.alternate || (p.warps_n == 1 && p.warps * kRowsPerWarp == s.product_rows),
       "with wgmma a warp has 16 rows, and warps_n is 1"},
      {p.store_columns >= 0, "store_columns is at least 0"},
      {p.exp2_share >= 0 && p.exp2_share <= 16, "exp2_share is 0 to 16"},
      {p.once_stages >= 1, "once_stages is at least 1"},
      {p.late_stages == 0 || p.late_stages >= 2, "late_stages is 0 or at least 2"},
      {!p.overlap_tiles || (p.wgmma && p.persistent), "overlap_tiles needs wgmma and persistent"},
      {!p.turns || (p.wgmma && p.warps >= 8), "turns are for two or more warpgroups' wgmmas"},
      {p.wgmma || (p.copy_warps == 0 && !p.persistent), "copy_warps and persistent need wgmma"},
      {k.info.cluster == 1 || !p.persistent, "a kernel with clusters is not persistent"},
      {!p.multicast || (p.persistent && can_multicast(k)),
       "multicast is for persistent kernels in which neighbouring tiles share what a loop loads"},
      {!p.alternate || (p.warps == kGroupWarps && p.warps_m == kGroupWarps && can_alternate(k, s)),
       "alternate is for tiles that one warpgroup of 4 warps can compute"},
      {!p.alternate || goes_with_alternate(p),
       "alternate needs persistent and copy_warps, and goes neither with dynamic nor with turns"},
      {p.persistent || !p.dynamic, "dynamic needs persistent"},
      {p.persistent || !p.tma_store, "tma_store needs persistent"},
      {!p.dynamic || !starts_early(k), "a kernel that waits for the one before it is not dynamic"},
      {!p.dynamic || !p.multicast, "tiles by a counter (dynamic) are not shared (multicast)"},
      {p.copy_warps == 0 || p.copy_warps == 1 || p.copy_warps == 4, "copy_warps is 0, 1 or 4"},
      {p.registers == 0 ||
           (p.copy_warps == 4 && p.registers % 8 == 0 && p.copy_registers() >= kLeastRegisters),
       "registers is a multiple of 8, needs 4 copy_warps, and leaves 24 to a thread of those"},
      {p.registers == 0 || p.registers > p.registers_at_entry(),
       "registers is more than all have at the entry"},
  };
  for (const auto& [holds, rule] : kRules)
    if (!holds)
      throw CompileError(Diagnostic{"", fmt::format("{}: {}", p.str(), rule), {}, {}, ""});
}

}  // namespace

bool plan(Kernel& kernel, PassContext& context) {
  if (kernel.info.cluster > 1 && !kernel.info.target.starts_with("sm_9"))
    throw CompileError(
        Diagnostic{"",
                   fmt::format("kernel {} runs in clusters of {} programs, which {} "
                               "does not have",
                               kernel.info.name, kernel.info.cluster, kernel.info.target),
                   {},
                   {},
                   "use grid(...) without cluster(...) there"});
  const bool chosen = !context.plan && context.plan_changes.empty();
  if (!context.plan) {
    context.plan = make_plan(kernel);
    context.plan->alternate = asks_for(kernel, AttrName::alternate);
    context.plan->change(context.plan_changes);
    if (context.plan->alternate) alternate_if_possible(kernel, context);
    if (!context.plan->wgmma) without_wgmma_fields(*context.plan);
    if (context.plan->warps < 8) context.plan->turns = false;
    if (kernel.info.cluster > 1) context.plan->persistent = false;
    if (!context.plan->persistent || starts_early(kernel)) context.plan->dynamic = false;
    if (!context.plan->persistent) context.plan->overlap_tiles = false;
    drop_multicast_unless_possible(kernel, context);
    drop_tma_store_unless_possible(kernel, context);
  }
  if (!chosen) require_legal(*context.plan, kernel);
  kernel.info.threads = 32 * context.plan->warps;
  kernel.info.min_ctas = context.plan->min_ctas;
  context.remark(Remark::Kind::Analysis, {}, "plan", {{"plan", context.plan->str()}});
  return true;
}

}  // namespace tegula::ir
