// Tiles of the GEMMs of experts' gradients. The model chooses by rows and columns; a tuner tries
// others, ordered by the time of an equivalent batch of GEMMs.
#include "autotune/experts/gradient_space.h"

#include <algorithm>

#include "autotune/calls/decision.h"
#include "autotune/experts/batch_cost.h"

namespace tegula {
namespace autotune {
namespace expert_gradient_rules {
namespace {

using P = ExpertGradientProblem;
using C = ExpertTileConfig;

/// Alignment of each expert's first row. Also the minimum tile height, and block_k of weight
/// gradients.
constexpr int kAlignedRows = 64;
/// Columns above which tiles of 256 columns are used even if the last one is incomplete.
constexpr std::int64_t kManyColumns = 1024;

constexpr int kRows[] = {128, 64};
constexpr int kColumns[] = {128, 256, 64, 192};
constexpr int kDepths[] = {64, 32, 128};
constexpr int kStages[] = {0, 2, 3, 4, 5, 6, 7, 8};
constexpr int kGroups[] = {8, 1, 4, 16};
constexpr int kFlag[] = {0, 1};
constexpr Axis<C> kAxes[] = {
    {"bm", [](C& c, int v) { c.bm = v; }, kRows},
    {"bn", [](C& c, int v) { c.bn = v; }, kColumns},
    {"bk", [](C& c, int v) { c.bk = v; }, kDepths},
    {"stages", [](C& c, int v) { c.stages = v; }, kStages},
    {"group_m", [](C& c, int v) { c.group_m = v; }, kGroups},
    {"multicast", [](C& c, int v) { c.multicast = v != 0; }, kFlag},
};

MatmulProblem as_batch(const P& p) {
  MatmulProblem batch{.m = p.m, .n = p.n, .k = p.k, .batch = p.experts};
  batch.is_batched = true, batch.operands = batch.result = p.operands;
  batch.a_k_major = p.gradient != ExpertGradient::weights;
  return batch;
}

bool is_of_weights(const P& p) { return p.gradient == ExpertGradient::weights; }

bool has_other_height(const P& p, const C& c, const Limits&) {
  return c.bm != (!is_of_weights(p) && p.m <= kAlignedRows ? kAlignedRows : 128);
}
bool is_wide_for_few_rows(const P&, const C& c, const Limits&) {
  return c.bm == kAlignedRows && c.bn == 256;
}
bool has_other_width(const P& p, const C& c, const Limits&) {
  const bool is_wide = c.bm == 128 && (p.n % 256 == 0 || p.n > kManyColumns);
  return c.bn != (is_wide ? 256 : 128);
}
bool has_other_steps_than_rows(const P& p, const C& c, const Limits&) {
  return is_of_weights(p) && c.bk != kAlignedRows;
}
bool has_other_depth(const P&, const C& c, const Limits&) { return c.bk != C().bk; }
bool is_deeper_than_shared_memory(const P& p, const C& c, const Limits& gpu) {
  return is_too_deep(as_batch(p), c, gpu.target);
}
bool has_given_stages(const P&, const C& c, const Limits&) { return c.stages != 0; }
bool groups_without_effect(const P& p, const C& c, const Limits&) {
  return is_of_weights(p) && c.group_m != C().group_m;
}
bool groups_otherwise(const P&, const C& c, const Limits&) { return c.group_m != C().group_m; }

bool multicasts_rows(const P& p, const C& c, const Limits&) {
  return c.multicast && is_of_weights(p);
}
bool multicasts_otherwise(const P& p, const C& c, const Limits&) {
  return c.multicast != (!is_of_weights(p) && pays_multicast(as_batch(p), c));
}

using enum Severity;
constexpr Rule<P, C> kRules[] = {
    {"height", "most experts have one tile of at most 128 rows", dominated, 0, has_other_height},
    {"few_rows", "one warpgroup lacks registers for a wide tile and its epilogue", degraded, 1,
     is_wide_for_few_rows},
    {"width", "other widths were slower in the layers that were measured", dominated, 1,
     has_other_width},
    {"aligned",
     "an iteration along an expert's rows must divide 64, because their number is padded to it",
     refused, 2, has_other_steps_than_rows},
    {"depth", "an iteration of 128 bytes along k already hides its barriers", dominated, 2,
     has_other_depth},
    {"shared_memory", "the ring does not fit shared memory", refused, 3,
     is_deeper_than_shared_memory, true},
    {"stages", "the compiler determines the stages", dominated, 3, has_given_stages},
    {"one_order", "tiles of weight gradients have a fixed order", refused, 4,
     groups_without_effect},
    {"group", "concurrent tiles share operands in L2 in groups of eight rows", dominated, 4,
     groups_otherwise},
    {"multicast_rows", "weight gradients read rows only", refused, 5, multicasts_rows},
    {"multicast", "vertically adjacent tiles share weights if the mainloop is long", dominated, 5,
     multicasts_otherwise},
};

double cycles(const P& p, const C& c, const DeviceProfile& gpu) {
  return cycles_of_batch(as_batch(p), c, gpu);
}

}  // namespace
}  // namespace expert_gradient_rules

const ExpertGradientSpace& expert_gradient_space() {
  using namespace expert_gradient_rules;
  static const ExpertGradientSpace space{kAxes, kRules, [](const P&, const Limits&) { return C{}; },
                                         [](C c, const P&, const Limits&) { return c; }, cycles};
  return space;
}

}  // namespace autotune

ExpertTileConfig choose_gradient_tiles(const ExpertGradientProblem& problem,
                                       const DeviceProfile& gpu) {
  return autotune::choose(problem, autotune::expert_gradient_space(), gpu).config;
}
ExpertTileConfig choose_gradient_tiles(const ExpertGradientProblem& problem, Device device) {
  return autotune::decide({"moe_gradients"}, problem, autotune::expert_gradient_space(), device);
}

}  // namespace tegula
