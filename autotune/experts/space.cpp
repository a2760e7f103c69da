// Tiles of experts' GEMMs: the model takes one by the mean of rows; a tuner tries others, in the
// order of the time that a batch of GEMMs would take.
#include "autotune/experts/space.h"

#include <algorithm>
#include <cmath>

#include "autotune/calls/decision.h"
#include "autotune/experts/batch_cost.h"

namespace tegula {
namespace autotune {
namespace {

using P = ExpertProblem;
using C = ExpertTileConfig;

/// Rows of most experts up to which outputs lie along the rows of the tensor cores' tiles.
constexpr int kFewRows = 64;

constexpr int kFlag[] = {0, 1};
constexpr int kRows[] = {128, 64, 32, 16, 256};
constexpr int kColumns[] = {128, 64, 192, 256};
constexpr int kDepths[] = {64, 32, 128};
constexpr int kStages[] = {0, 2, 3, 4, 5, 6, 7, 8};
constexpr int kGroups[] = {8, 1, 4, 16};
constexpr Axis<C> kAxes[] = {
    {"swap_ab", [](C& c, int v) { c.swap_ab = v != 0; }, kFlag},
    {"bm", [](C& c, int v) { c.bm = v; }, kRows},
    {"bn", [](C& c, int v) { c.bn = v; }, kColumns},
    {"bk", [](C& c, int v) { c.bk = v; }, kDepths},
    {"stages", [](C& c, int v) { c.stages = v; }, kStages},
    {"group_m", [](C& c, int v) { c.group_m = v; }, kGroups},
};

MatmulProblem as_batch(const P& p) {
  MatmulProblem batch{.m = p.rows, .n = p.columns, .k = p.k, .batch = p.experts};
  batch.is_batched = true, batch.operands = batch.result = p.operands;
  batch.b_k_major = true, batch.gates = p.is_gated ? 2 : 1;
  return batch;
}

/// Rows that most experts do not exceed: those of an even routing scatter by the root of their
/// mean. A second tile for a few rows would read all of the expert's weights again, and what bounds
/// experts of few rows is how fast weights arrive.
int usual_rows(const P& p) {
  constexpr double kDeviations = 2;
  const auto mean = static_cast<double>(p.rows);
  return static_cast<int>(std::min(mean + kDeviations * std::sqrt(mean), 1e9));
}
bool has_few_rows(const P& p) { return usual_rows(p) <= kFewRows; }

bool swaps_otherwise(const P& p, const C& c, const Limits&) { return c.swap_ab != has_few_rows(p); }
bool has_rows_of_no_wgmma(const P&, const C& c, const Limits&) {
  return !c.swap_ab && (c.bm < kFewRows || c.bm > 128);
}
bool has_other_height(const P& p, const C& c, const Limits&) {
  const int rows = usual_rows(p);
  return c.bm != (rows <= 16 ? 16 : rows <= 32 ? 32 : rows <= kFewRows ? kFewRows : 128);
}
bool has_no_room_for_accumulator(const P& p, const C& c, const Limits&) {
  const AccumulatorShape t =
      accumulator_of(as_batch(p), {.bm = c.bm, .bn = c.bn, .swap_ab = c.swap_ab});
  return t.rows > 256 || t.columns > (t.rows > 128 ? 128 : 256);
}
/// How much of the waves' SMs have a tile, of as many tiles below each other as there are experts.
double share_of_waves(const P& p, int bn, const Limits& gpu) {
  const std::int64_t tiles = std::max<std::int64_t>(1, p.experts * ((p.columns + bn - 1) / bn)),
                     sms = std::max(1, gpu.num_sms), waves = (tiles + sms - 1) / sms;
  return static_cast<double>(tiles) / static_cast<double>(waves * sms);
}
/// Few tiles are narrow where that gives more SMs something to read.
int width_of_few_rows(const P& p, const Limits& gpu) {
  constexpr double kWorthIt = 1.1;
  const bool is_wide =
      p.columns > 64 && share_of_waves(p, 64, gpu) < kWorthIt * share_of_waves(p, 128, gpu);
  return is_wide ? 128 : 64;
}
bool has_other_width(const P& p, const C& c, const Limits& gpu) {
  if (c.swap_ab) return c.bn != width_of_few_rows(p, gpu);
  return c.bn != (p.is_gated || p.columns <= 1024 ? 128 : 256);
}
bool has_other_depth(const P& p, const C& c, const Limits&) {
  return c.bk * size_bytes(p.operands) != 128;
}
bool is_deeper_than_shared_memory(const P& p, const C& c, const Limits& gpu) {
  return is_too_deep(as_batch(p), c, gpu.target);
}
bool has_given_stages(const P&, const C& c, const Limits&) { return c.stages != 0; }
bool groups_otherwise(const P&, const C& c, const Limits&) { return c.group_m != C().group_m; }

using enum Severity;
constexpr Rule<P, C> kRules[] = {
    {"few_rows", "few rows lie along the columns of wgmma, many along its rows", dominated, 0,
     swaps_otherwise},
    {"rows", "wgmma's tiles have 64 or 128 rows here", degraded, 1, has_rows_of_no_wgmma},
    {"height", "most experts have one tile, of 128 rows at most", dominated, 1, has_other_height},
    {"accumulator", "the accumulator leaves a thread no registers", degraded, 2,
     has_no_room_for_accumulator},
    {"width", "other widths were slower in the layers that were measured", dominated, 2,
     has_other_width},
    {"depth", "an iteration of 128 bytes along k is as long as its barriers want", dominated, 3,
     has_other_depth},
    {"shared_memory", "the ring does not fit shared memory", refused, 4,
     is_deeper_than_shared_memory, true},
    {"stages", "the compiler knows what the epilogue needs", dominated, 4, has_given_stages},
    {"group", "concurrent tiles share operands in L2 in groups of eight rows", dominated, 5,
     groups_otherwise},
};

double cycles(const P& p, const C& c, const DeviceProfile& gpu) {
  return cycles_of_batch(as_batch(p), c, gpu);
}

}  // namespace

const ExpertSpace& expert_space() {
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
