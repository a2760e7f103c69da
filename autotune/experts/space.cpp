// Tiles of experts' GEMMs. The model chooses by the time of ragged segments under an even routing;
// a tuner tries others, ordered by that time.
#include "autotune/experts/space.h"

#include <algorithm>

#include "autotune/calls/decision.h"
#include "autotune/experts/batch_cost.h"

namespace tegula {
namespace autotune {
namespace expert_rules {
namespace {

using P = ExpertProblem;
using C = ExpertTileConfig;

/// Rows of a tile up to which reading its weights dominates its time.
constexpr int kFewRows = 64;

constexpr int kFlag[] = {0, 1};
/// Tile heights. 96 is missing: two CTAs of 96 x 128 narrowly exceed an SM, and one CTA does not
/// use it fully.
constexpr int kRows[] = {16, 32, 48, 64, 80, 112, 128, 144, 160, 192, 256};
constexpr int kColumns[] = {128, 64, 192, 256};
constexpr int kDepths[] = {64, 32, 128};
constexpr int kStages[] = {0, 2, 3, 4, 5, 6, 8};
constexpr int kGroups[] = {8, 1, 4, 16};
constexpr Axis<C> kAxes[] = {
    {"swap_ab", [](C& c, int v) { c.swap_ab = v != 0; }, kFlag},
    {"bm", [](C& c, int v) { c.bm = v; }, kRows},
    {"bn", [](C& c, int v) { c.bn = v; }, kColumns},
    {"bk", [](C& c, int v) { c.bk = v; }, kDepths},
    {"stages", [](C& c, int v) { c.stages = v; }, kStages},
    {"group_m", [](C& c, int v) { c.group_m = v; }, kGroups},
    {"gathers", [](C& c, int v) { c.gathers = v != 0; }, kFlag},
    {"multicast", [](C& c, int v) { c.multicast = v != 0; }, kFlag},
};

MatmulProblem as_batch(const P& p) {
  MatmulProblem batch{.m = p.rows, .n = p.columns, .k = p.k, .batch = p.experts};
  batch.is_batched = true, batch.operands = batch.result = p.operands;
  batch.fp32_promotion = p.fp32_promotion;
  batch.b_k_major = true, batch.gates = p.is_gated ? 2 : 1;
  return batch;
}

/// Returns the number of warpgroups that share the accumulator.
int consumer_warpgroups(const C& c) { return (c.swap_ab ? c.bn : c.bm) / ir::kWgmmaRows; }

bool has_rows_of_no_wgmma(const P&, const C& c, const Limits&) {
  return !c.swap_ab && (c.bm % ir::kWgmmaRows != 0 || c.bm > 192);
}
bool is_low_without_swap(const P&, const C& c, const Limits&) { return !c.swap_ab && c.bm < 128; }
/// Returns true if the accumulator exceeds its share of a consumer thread's registers. With a
/// producer, threads of two warpgroups have 232 registers, those of three have 160. A single
/// warpgroup transposes twice as much of the accumulator, which also takes registers.
bool has_no_room_for_accumulator(const P& p, const C& c, const Limits&) {
  constexpr int kRegisters[] = {96, 160, 96}, kThreads = 128, kColumnsOfBytes = 128;
  const AccumulatorShape t =
      accumulator_of(as_batch(p), {.bm = c.bm, .bn = c.bn, .swap_ab = c.swap_ab});
  const int groups = std::max(1, consumer_warpgroups(c)),
            elements = t.rows * t.columns * (p.fp32_promotion ? 2 : 1);
  // With scales, a gated tile of 144 columns spills 208 bytes.
  if (size_bytes(p.operands) == 1 && c.swap_ab && c.bm > kColumnsOfBytes) return true;
  return groups > 3 || elements > groups * kThreads * kRegisters[groups - 1];
}
/// 8-bit results are exchanged between threads before packing. A swapped tile exchanges all of them
/// at once and spills if it is larger (828 bytes for a gated tile of 80 rows).
bool has_no_room_to_pack(const P& p, const C& c, const Limits&) {
  constexpr int kPackedElements = 12288;
  const AccumulatorShape t = accumulator_of(as_batch(p), {.bm = c.bm, .bn = c.bn, .swap_ab = true});
  return size_bytes(p.result) == 1 && c.swap_ab && t.rows * t.columns > kPackedElements;
}
bool has_third_warpgroup(const P&, const C& c, const Limits&) { return consumer_warpgroups(c) > 2; }
/// Returns the fraction of the SMs of all waves that have a tile, with one row of tiles per expert.
double share_of_waves(const P& p, int bn, const Limits& gpu) {
  const std::int64_t tiles = std::max<std::int64_t>(1, p.experts * ((p.columns + bn - 1) / bn)),
                     sms = std::max(1, gpu.num_sms), waves = (tiles + sms - 1) / sms;
  return static_cast<double>(tiles) / static_cast<double>(waves * sms);
}
/// Returns the tile width for few rows: 64 if more SMs then have weights to read, else 128.
int width_of_few_rows(const P& p, const Limits& gpu) {
  constexpr double kWorthIt = 1.1;
  const bool is_wide =
      p.columns > 64 && share_of_waves(p, 64, gpu) < kWorthIt * share_of_waves(p, 128, gpu);
  return is_wide ? 128 : 64;
}
bool has_other_width(const P& p, const C& c, const Limits& gpu) {
  return c.swap_ab && c.bn != (c.bm <= kFewRows ? width_of_few_rows(p, gpu) : 128);
}
bool has_other_depth(const P& p, const C& c, const Limits&) {
  return c.bk * size_bytes(p.operands) != 128;
}
bool is_deeper_than_shared_memory(const P& p, const C& c, const Limits& gpu) {
  return is_too_deep(as_batch(p), c, gpu.target);
}
/// Returns the ring stages: 8 for tiles of few rows that each occupy an SM alone, else 0 (the
/// compiler chooses). Such a tile has at most one ring of bytes in flight; the compiler's four
/// stages are 40 KB, and the down GEMM of one Mixtral token (128 tiles, k = 14336) stalled on them.
int stages_of(const P& p, const C& c, const Limits& gpu) {
  constexpr int kDeepRing = 8;
  const std::int64_t tiles = p.experts * ((p.columns + c.bn - 1) / c.bn);
  C deep = c;
  deep.stages = kDeepRing;
  const bool is_deep = c.swap_ab && c.bm <= kFewRows && tiles <= gpu.num_sms;
  return is_deep && !is_too_deep(as_batch(p), deep, gpu.target) ? kDeepRing : 0;
}
bool has_other_stages(const P& p, const C& c, const Limits& gpu) {
  return c.stages != stages_of(p, c, gpu);
}
bool groups_otherwise(const P&, const C& c, const Limits&) { return c.group_m != C().group_m; }
bool gathers_no_rows(const P& p, const C& c, const Limits&) {
  return c.gathers && (p.product != ExpertProduct::up || p.choices == 0);
}
bool gathers_few_rows(const P&, const C& c, const Limits&) { return c.gathers && c.bm <= kFewRows; }

bool multicasts_otherwise(const P& p, const C& c, const Limits&) {
  return c.multicast != pays_multicast(as_batch(p), c);
}

using enum Severity;
constexpr Rule<P, C> kRules[] = {
    {"rows", "wgmma tiles have 64, 128 or 192 rows here", degraded, 1, has_rows_of_no_wgmma},
    {"low", "a tile of 64 rows reads weights as often as a swapped tile, which can have fewer",
     dominated, 1, is_low_without_swap},
    {"accumulator", "the accumulator exceeds a thread's registers", degraded, 2,
     has_no_room_for_accumulator},
    {"packing", "exchanging the results exceeds a thread's registers", degraded, 2,
     has_no_room_to_pack},
    {"third_warpgroup", "three warpgroups were not faster in measured GEMMs", dominated, 2,
     has_third_warpgroup},
    {"width", "with few rows, more SMs must read weights; with more rows, 64 columns were slower",
     dominated, 2, has_other_width},
    {"depth", "an iteration of 128 bytes along k already hides its barriers", dominated, 3,
     has_other_depth},
    {"shared_memory", "the ring does not fit shared memory", refused, 4,
     is_deeper_than_shared_memory, true},
    {"stages", "the compiler determines the stages; a tile that is alone on its SM has 8",
     dominated, 4, has_other_stages},
    {"group", "concurrent tiles share operands in L2 in groups of eight rows", dominated, 5,
     groups_otherwise},
    {"gathers", "there are no tokens whose rows could be gathered", refused, 6, gathers_no_rows},
    {"gathers_few", "gathered tiles of few rows were not measured", dominated, 6, gathers_few_rows},
    {"multicast", "vertically adjacent tiles share weights if the mainloop is long", dominated, 7,
     multicasts_otherwise},
};

/// Cost of gathering a tile's rows, in k-iterations. A gathered 128 x 256 tile reaches 0.88, 0.94
/// and 0.97 of the speed of contiguous rows for 16, 32 and 64 k-iterations
/// (bench/results/sweeps/2026-11-26-h200-dot-graphs.txt).
constexpr double kGatherTrips = 2;

double cycles(const P& p, const C& c, const DeviceProfile& gpu) {
  const ir::Target target = limits_of(gpu).target;
  const MatmulProblem batch = as_batch(p);
  Work w = work_of_segments(batch, as_matmul(batch, c, target), target);
  w.is_persistent = false;  // tiles of experts were measured against estimates of separate tiles
  if (c.gathers) {
    w.trips += kGatherTrips;
  } else if (p.choices > 0) {
    const std::int64_t rows = p.rows * p.experts, tokens = rows / p.choices;
    w.repack_bytes = static_cast<double>((rows + tokens) * p.k * size_bytes(p.operands));
  }
  return cycles_of_segments(w, gpu);
}

}  // namespace
}  // namespace expert_rules

const ExpertSpace& expert_space() {
  using namespace expert_rules;
  static const ExpertSpace space{kAxes,
                                 kRules,
                                 [](const P&, const Limits&) { return C{}; },
                                 [](C c, const P&, const Limits&) { return c; },
                                 cycles,
                                 nullptr};
  return space;
}

}  // namespace autotune

ExpertTileConfig choose_expert_tiles(const ExpertProblem& problem, const DeviceProfile& gpu) {
  return autotune::choose(problem, autotune::expert_space(), gpu).config;
}
ExpertTileConfig choose_expert_tiles(const ExpertProblem& problem, Device device) {
  return autotune::decide({"moe_experts"}, problem, autotune::expert_space(), device);
}

}  // namespace tegula
