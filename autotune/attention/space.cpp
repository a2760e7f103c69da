// Tiles of attention's forward pass: the space, and the estimated time.
#include "autotune/attention/space.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "autotune/calls/decision.h"
#include "tegula/attention_tiles.h"
#include "tegula/int_math.h"

namespace tegula {
namespace autotune {
namespace attention_rules {
namespace {

using P = AttentionProblem;
using C = AttentionConfig;

/// Rows of a tile of three consumer warpgroups, and the minimum keys per step for a gain.
constexpr int kTallRows = 192, kMinTallKeys = 96;

constexpr int kRows[] = {128, kTallRows, kSmallQBlock};
constexpr int kKeys[] = {16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224};
constexpr int kFlag[] = {0, 1};
constexpr Axis<C> kAxes[] = {
    {"block_q", [](C& c, int v) { c.block_q = v; }, kRows},
    {"block_kv", [](C& c, int v) { c.block_kv = v; }, kKeys},
    {"is_speculative", [](C& c, int v) { c.is_speculative = v != 0; }, kFlag},
    {"longest_first", [](C& c, int v) { c.longest_first = v != 0; }, kFlag},
};

/// Returns true if the rows fit a tile of half the size.
bool has_few_rows(const P& p) { return p.splits_kv || (p.pack_gqa && p.queries <= kSmallQBlock); }
/// Returns true if neither a score nor a block search needs registers.
bool is_plain(const P& p) {
  return !p.has_score && !p.has_per_element_state && !p.reads_kv_index && !p.is_non_contiguous;
}
/// Returns true for tiles of the full height, without packed heads and without packed sequences.
bool has_plain_rows(const P& p) { return !p.pack_gqa && !p.is_varlen && !has_few_rows(p); }

AttentionTileShape usual_tiles(const P& p) {
  return {has_few_rows(p) ? kSmallQBlock : 128, attention_tiles(requirements_of(p)).block_kv};
}
/// Returns true if TMA loads the score's tensors in larger kv blocks than threads would.
bool has_boxes(const P& p) {
  const TileRequirements needs = requirements_of(p);
  return p.tma_bytes_per_element > 0 && has_plain_rows(p) &&
         tma_bias_tiles(needs).block_kv > attention_tiles(needs).block_kv;
}

bool is_tall_without_wgmma(const P&, const C& c, const Limits& gpu) {
  return c.block_q == kTallRows && !gpu.target->has_wgmma;
}
bool has_other_rows_for_few(const P& p, const C& c, const Limits&) {
  return has_few_rows(p) != (c.block_q == kSmallQBlock);
}

bool is_larger_than_shared_memory(const P& p, const C& c, const Limits&) {
  const int pair_bytes = has_boxes(p) ? p.tma_bytes_per_element : 0;
  return c.block_kv > keys_by_shared(p.head_dim, p.head_dim_v, c.block_q, pair_bytes);
}
bool is_larger_than_registers(const P& p, const C& c, const Limits&) {
  const TileRequirements needs = requirements_of(p);
  if (c.block_q == kTallRows)
    return c.block_kv > three_warpgroup_tiles(needs, p.kv_extent).block_kv;
  int most = attention_tiles(needs).block_kv;
  if (has_boxes(p)) most = tma_bias_tiles(needs).block_kv;
  if (is_plain(p)) most = std::max(most, large_n_tiles(needs).block_kv);
  return c.block_kv > most;
}

/// Rejects shapes that were nowhere measured to be faster than the usual one.
bool is_no_shape_of_its_own(const P& p, const C& c, const Limits& gpu) {
  const TileRequirements needs = requirements_of(p);
  if (has_boxes(p)) return c.tiles() != tma_bias_tiles(needs);
  const AttentionTileShape usual = usual_tiles(p);
  if (c.tiles() == usual) return false;
  if (!is_plain(p) || !has_plain_rows(p) || p.kv_extent == KvExtent::unknown) return true;
  if (c.tiles() == large_n_tiles(needs)) return c.block_kv <= usual.block_kv;
  return c.tiles() != three_warpgroup_tiles(needs, p.kv_extent) || !gpu.target->has_wgmma ||
         c.block_kv < kMinTallKeys;
}

bool is_not_as_asked(AskedFor asked, bool has) {
  return asked != AskedFor::open && (asked == AskedFor::yes) != has;
}
bool speculates_otherwise(const P& p, const C& c, const Limits&) {
  return is_not_as_asked(p.speculation, c.is_speculative);
}
bool speculates_for_nothing(const P& p, const C& c, const Limits&) {
  return p.speculation == AskedFor::open && c.is_speculative != p.speculation_pays;
}
bool orders_otherwise(const P& p, const C& c, const Limits&) {
  return is_not_as_asked(p.longest_first, c.longest_first);
}
/// Ordering tiles costs a kernel that ranks them, and L2 reuse between neighbouring heads. It pays
/// if an SM has few tiles, of which one may be long
/// (bench/results/sweeps/2026-11-23-h200-choices.jsonl, 2026-11-23-h200-document-order.jsonl). Rows
/// of several sequences count as rows of one.
bool orders_for_nothing(const P& p, const C& c, const Limits& gpu) {
  if (p.longest_first != AskedFor::open) return false;
  constexpr std::int64_t kMaxShare = 16, kStepsByShare = 4, kMaxRanked = 512;
  const std::int64_t of_head = ceil_div(p.queries, c.block_q), all = p.matrices * of_head,
                     steps = ceil_div(p.keys / p.sequences, c.block_kv), sms = gpu.num_sms;
  const bool pays = of_head > 1 && of_head <= kMaxRanked && all > sms && all <= kMaxShare * sms &&
                    steps * sms >= kStepsByShare * all;
  return c.longest_first != pays;
}

using enum Severity;
constexpr Rule<P, C> kRules[] = {
    {"tall", "only wgmma has three consumer warpgroups", refused, 0, is_tall_without_wgmma},
    {"few_rows", "half of a tile would be empty, or tiles of twice the rows share their keys",
     dominated, 0, has_other_rows_for_few},
    {"shared_memory", "two stages of keys and values do not fit in addition to the queries",
     refused, 1, is_larger_than_shared_memory, true},
    {"registers", "accumulator, scores and weights exceed a thread's registers", degraded, 1,
     is_larger_than_registers, true},
    {"shape", "other tiles were not faster in any measurement", dominated, 1,
     is_no_shape_of_its_own},
    {"speculation_asked", "the caller or the mask determines it", refused, 2, speculates_otherwise},
    {"speculation", "a second launch costs more than it saves, or recomputes many tiles", dominated,
     2, speculates_for_nothing},
    {"order_asked", "the caller determines it, or there is no list", refused, 3, orders_otherwise},
    {"order", "tiles are too few, too many or too short to rank", dominated, 3, orders_for_nothing},
};

/// Returns the overhead of a kv block, in keys: barriers, maxima across lanes, output rescaling.
double step_keys(int head_dim_v, const AttentionRates& r) {
  return r.block_keys + r.block_keys_per_dim * head_dim_v;
}
/// Returns the time of a row of a three-warpgroup tile relative to a tile of 128 rows with the same
/// keys per kv block.
double tall_row(const P& p, const AttentionRates& r) {
  return p.kv_extent == KvExtent::full ? r.tall_row_full : r.tall_row_masked;
}

/// Returns the average number of keys of a query tile under a causal mask.
double keys_up_to_row(int rows, const P& p) {
  const auto first = static_cast<double>(p.first_query), q = static_cast<double>(p.queries),
             k = static_cast<double>(p.keys);
  // Rows beyond the last key need all keys.
  const double rising = std::clamp(k - first, 0.0, q);
  return (rising * (first + rising / 2) + (q - rising) * k) / std::max(q, 1.0) + rows / 2.0;
}

/// Returns the average time of a row of a tile, in keys.
double row_keys(const P& p, const C& c, const AttentionRates& r) {
  const bool is_all = p.kv_extent == KvExtent::full;
  // kv blocks end after the last required key, by this many keys on average if bounds are multiples
  // of the rows.
  const double spare = is_all ? 0 : (c.block_kv - std::gcd(c.block_kv, c.block_q)) / 2.0;
  const double needed = is_all ? static_cast<double>(ceil_div(p.keys, c.block_kv) * c.block_kv)
                               : keys_up_to_row(c.block_q, p);
  // One more iteration: the first GEMM0 and the last GEMM1 overlap nothing.
  const double steps = (needed + spare) / c.block_kv + 1;
  return steps * (c.block_kv + step_keys(p.head_dim_v, r)) +
         (is_all ? 0 : r.masked_share * (c.block_q + 2 * spare));
}

/// Returns the cycles of all rows, including rows beyond the last query and the idle time of SMs
/// without a tile.
double cycles(const P& p, const C& c, const DeviceProfile& gpu) {
  const AttentionRates& r = gpu.attention;
  const auto tiles = static_cast<double>(p.matrices * ceil_div(p.queries, c.block_q)) / gpu.num_sms;
  // Tiles of different lengths even out, except within one wave.
  const double rounds = p.kv_extent == KvExtent::full ? std::ceil(tiles) : std::max(tiles, 1.0);
  const double tall = c.block_q == kTallRows ? tall_row(p, r) : 1.0;
  // Each key of a row is multiplied by both head dims, 2 bytes each.
  const double of_key =
      4.0 * (p.head_dim + p.head_dim_v) / (gpu.cost.mma_bytes * gpu.cost.wgmma_share);
  return rounds * c.block_q * row_keys(p, c, r) * tall * of_key;
}

/// Rows are independent: only their kv blocks, the reference of their weights and the engine
/// determine their bits.
std::uint64_t numerics(const P&, const C& c, const Limits&) {
  return field_detail::mixed(static_cast<std::uint64_t>(c.block_kv), c.is_speculative);
}

}  // namespace
}  // namespace attention_rules

const AttentionSpace& attention_space() {
  using namespace attention_rules;
  static const AttentionSpace space{
      kAxes,
      kRules,
      [](const P&, const Limits&) { return C{}; },
      [](C c, const P&, const Limits&) { return c; },
      cycles,
      numerics,
      [](const DeviceProfile& gpu) { return gpu.attention.worthwhile; }};
  return space;
}

}  // namespace autotune

AttentionConfig choose_attention(const AttentionProblem& problem, const DeviceProfile& gpu) {
  return autotune::choose(problem, autotune::attention_space(), gpu).config;
}
AttentionConfig choose_attention(const AttentionProblem& problem, Device device) {
  return autotune::decide({"attention_tiles"}, problem, autotune::attention_space(), device);
}

}  // namespace tegula
