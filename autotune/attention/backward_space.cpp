// Tiles of attention's backward pass. Rules determine the configuration of a call; the estimated
// time only ranks the other candidates of a tuner.
#include "autotune/attention/backward_space.h"

#include <algorithm>
#include <cmath>

#include "autotune/calls/decision.h"
#include "tegula/int_math.h"

namespace tegula {
namespace autotune {
namespace attention_backward_rules {
namespace {

using P = AttentionBackwardProblem;
using C = AttentionBackwardConfig;

/// Columns of dK and dV together that registers have room for.
constexpr int kMaxColumns = 256;
/// The same for one launch with 32 queries per iteration, whose other tiles are smaller.
constexpr int kMaxColumnsOfFewQueries = 320;
/// Columns of K and V together up to which shared memory has room for two slots of 64 queries and
/// their gradients.
constexpr int kMaxColumnsOfTiles = 384;
/// The same if gradients of captures are added to memory: up to that many columns registers have
/// room for their terms.
constexpr int kMaxColumnsOfTerms = 192;

constexpr int kKeys[] = {128, 64};
constexpr int kQueries[] = {64, 32};
constexpr int kStages[] = {2, 4, 3, 5, 6, 8};
constexpr int kLaunches[] = {1, 2};
constexpr int kFlag[] = {0, 1};
constexpr Axis<C> kAxes[] = {
    {"block_kv", [](C& c, int v) { c.block_kv = v; }, kKeys},
    {"block_q", [](C& c, int v) { c.block_q = v; }, kQueries},
    {"stages", [](C& c, int v) { c.stages = v; }, kStages},
    {"launches", [](C& c, int v) { c.launches = v; }, kLaunches},
    {"heads_last", [](C& c, int v) { c.heads_last = v != 0; }, kFlag},
};

int all_columns(const P& p) { return p.columns + p.columns_v; }

bool has_room_for_64(const P& p) {
  return all_columns(p) <= (p.sums_captures ? kMaxColumnsOfTerms : kMaxColumnsOfTiles);
}
bool has_wide_sums(const P& p) { return !p.of_queries && all_columns(p) > kMaxColumns; }
/// Measured with head dims 192 and 128: docs/experiments/2026-11-29-attention-backward.md.
bool pays_one_launch(const P& p) {
  return p.columns == 192 && p.columns_v <= 128 && p.kv_extent == KvExtent::causal && p.has_both &&
         p.adds_queries && !p.has_score && !p.sums_captures;
}

/// Returns the configuration of a call without winners.
C usual(const P& p) {
  C c;
  // Rows of packed sequences are in whole tiles.
  c.block_kv = p.of_queries && p.is_varlen ? 64 : 128;
  c.stages = std::max(p.columns, p.columns_v) > 64 ? 2 : 4;
  c.launches = has_wide_sums(p) && !pays_one_launch(p) ? 2 : 1;
  c.block_q = has_room_for_64(p) && (c.launches == 2 || !has_wide_sums(p)) ? 64 : 32;
  c.heads_last = p.kv_extent == KvExtent::causal && !p.is_varlen && !p.has_lists && !p.of_queries;
  // The threads exchange gradients in shared memory next to the rings.
  c.store_columns = all_columns(p) > kMaxColumns ? 32 : 0;
  return c;
}

bool has_tiles_of_other_rows(const P& p, const C& c, const Limits&) {
  return (p.is_varlen || p.has_lists) && c.block_kv != usual(p).block_kv;
}
/// One warpgroup holds the columns of a tile of 64 rows, and those of dQ.
bool is_wide_for_one_warpgroup(const P& p, const C& c, const Limits&) {
  return c.block_kv < usual(p).block_kv && all_columns(p) > kMaxColumns / 2;
}
bool has_other_rows(const P& p, const C& c, const Limits&) {
  return c.block_kv != usual(p).block_kv;
}
bool has_many_queries(const P& p, const C& c, const Limits&) {
  return c.block_q == 64 && !has_room_for_64(p);
}
/// dQ of 32 queries is transposed; its columns are the rows of MMAs, of which wgmma needs 64.
bool has_few_rows_of_dq(const P& p, const C& c, const Limits&) {
  return c.block_q == 32 && p.adds_queries && p.columns % 64 != 0 && has_room_for_64(p);
}
bool has_other_queries(const P& p, const C& c, const Limits&) {
  return c.block_q != usual(p).block_q;
}
/// K and V, the ring of Q and dO, and dS.
bool is_deeper_than_shared_memory(const P& p, const C& c, const Limits& gpu) {
  const std::int64_t rows = c.block_kv + std::int64_t{c.stages} * c.block_q,
                     bytes = 2 * (rows * all_columns(p) + std::int64_t{c.block_kv} * c.block_q);
  return c.stages > 2 && bytes > gpu.target->ring_bytes();
}
bool has_other_stages(const P& p, const C& c, const Limits&) { return c.stages != usual(p).stages; }
bool launches_for_nothing(const P& p, const C& c, const Limits&) {
  return c.launches == 2 && !has_wide_sums(p);
}
bool has_few_registers(const P& p, const C& c, const Limits&) {
  return c.launches == 1 && has_wide_sums(p) &&
         (c.block_q == 64 || all_columns(p) > kMaxColumnsOfFewQueries);
}
bool launches_otherwise(const P& p, const C& c, const Limits&) {
  return c.launches != usual(p).launches;
}
bool orders_sequences(const P& p, const C& c, const Limits&) { return c.heads_last && p.is_varlen; }
bool orders_otherwise(const P& p, const C& c, const Limits&) {
  return c.heads_last != usual(p).heads_last;
}

using enum Severity;
constexpr Rule<P, C> kRules[] = {
    {"whole_rows", "packed sequences and lists have tiles of 128 keys, or of 64 queries", refused,
     0, has_tiles_of_other_rows},
    {"warpgroup", "one warpgroup lacks registers for these columns", degraded, 0,
     is_wide_for_one_warpgroup},
    {"rows", "half of the rows read all queries again", dominated, 0, has_other_rows},
    {"many_queries", "shared memory or registers lack room for 64 queries", degraded, 1,
     has_many_queries},
    {"transposed", "wgmma has no instruction for dQ of 32 queries and these columns", degraded, 1,
     has_few_rows_of_dq},
    {"queries", "other numbers were slower, or lack registers", dominated, 1, has_other_queries},
    {"shared_memory", "the rings do not fit shared memory", refused, 2,
     is_deeper_than_shared_memory},
    {"stages", "other numbers were slower", dominated, 2, has_other_stages},
    {"without_use", "registers have room for all gradients", refused, 3, launches_for_nothing},
    {"registers", "registers lack room for all gradients", degraded, 3, has_few_registers},
    {"launches", "the other number was slower, or not measured", dominated, 3, launches_otherwise},
    {"one_order", "packed sequences have one order of tiles", refused, 4, orders_sequences},
    {"order", "the other order was slower, or not measured", dominated, 4, orders_otherwise},
};

/// Returns the cycles of all products of a pair of a query and a key. S and dP of 32 queries read
/// shared memory for 1.5 times as long as they compute.
double of_pair(const P& p, const C& c, const DeviceProfile& gpu) {
  const double k = p.columns, v = p.columns_v, weights = c.block_q == 32 ? 1.5 : 1;
  double columns = weights * (k + v) + k;  // S, dP, and dK (or dQ)
  if (!p.of_queries) columns += v;
  if (p.adds_queries) columns += k;
  if (c.launches == 2) columns += weights * k;
  return 4 * columns / (gpu.cost.mma_bytes * gpu.cost.wgmma_share);
}

double cycles(const P& p, const C& c, const DeviceProfile& gpu) {
  const std::int64_t rows = p.of_queries ? p.queries : p.keys,
                     columns = p.of_queries ? p.keys : p.queries;
  const auto tiles =
      static_cast<double>(p.matrices * ceil_div<std::int64_t>(rows, c.block_kv)) / gpu.num_sms;
  const double share = p.kv_extent == KvExtent::full ? 1 : 0.5,
               rounds = p.kv_extent == KvExtent::full ? std::ceil(tiles) : std::max(tiles, 1.0);
  const auto steps = static_cast<double>(
      ceil_div<std::int64_t>(ceil_div(columns, std::max<std::int64_t>(p.sequences, 1)), c.block_q));
  // A launch more, for the rows of a tile before and after its loop.
  return rounds * (share * steps + 1) * c.block_kv * c.block_q * of_pair(p, c, gpu);
}

/// Each row is a sum over the other dimension in its order, whatever the rows of its tile are.
/// Additions to memory promise no bits.
std::uint64_t numerics(const P&, const C& c, const Limits&) {
  return static_cast<std::uint64_t>(c.block_q);
}

}  // namespace
}  // namespace attention_backward_rules

const AttentionBackwardSpace& attention_backward_space() {
  using namespace attention_backward_rules;
  static const AttentionBackwardSpace space{
      kAxes,
      kRules,
      [](const P& p, const Limits&) { return usual(p); },
      [](C c, const P&, const Limits&) { return c; },
      cycles,
      numerics,
      nullptr,
      [](const P& p) { return !p.adds_queries && !p.sums_captures; }};
  return space;
}

}  // namespace autotune

AttentionBackwardConfig choose_attention_backward(const AttentionBackwardProblem& problem,
                                                  const DeviceProfile& gpu) {
  return autotune::choose(problem, autotune::attention_backward_space(), gpu).config;
}
AttentionBackwardConfig choose_attention_backward(const AttentionBackwardProblem& problem,
                                                  Device device) {
  return autotune::decide({"attention_backward"}, problem, autotune::attention_backward_space(),
                          device);
}

}  // namespace tegula
