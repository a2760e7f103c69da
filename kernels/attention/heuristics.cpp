#include "kernels/attention/heuristics.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "tegula/int_math.h"
#include "tegula/kernels/copy.h"
#include "tegula/kernels/masks.h"

namespace tegula::kernels {
namespace {

/// Rows of tiles with keys in M, and their keys: a multiple of 64. A product with 8 rows takes as
/// long as one with 16, and its weights have no layout in shared memory that MMAs read.
constexpr std::array<int, 2> kRowsInN{16, kMaxRowsInN};
constexpr int kKeysInM = 64;

/// Stages of each of two CTAs per SM.
constexpr int kMinPairedStages = 3, kMaxPairedStages = 4;

/// Returns the number of keys of a block for which two CTAs per SM have room. Values are in M, too.
int paired_keys(const AttentionCall& c) {
  return keys_of_paired_ctas(static_cast<int>(c.Q.size(3)),
                             static_cast<int>(round_up(c.V.size(3), kKeysInM)));
}

/// Returns the number of sequences, at least 1.
std::int64_t sequences(const AttentionCall& c) {
  return std::max<std::int64_t>(c.lengths.q.size(0) - 1, 1);
}

/// Estimates the fraction of the query-key pairs that a mask keeps; masks that cannot be analysed
/// are treated as a narrow window.
double share_of(KvExtent kv_extent) {
  return kv_extent == KvExtent::full ? 1.0 : kv_extent == KvExtent::causal ? 0.5 : 0.125;
}

/// Estimates the floating-point operations of both GEMMs.
double work(const AttentionCall& c, KvExtent kv_extent) {
  const auto of = [](std::int64_t n) { return static_cast<double>(n); };
  const double all = of(c.Q.size(0)) * of(c.Q.size(1)) * of(c.Q.size(2)) * of(c.K.size(2));
  // Assumes that packed sequences have equal lengths.
  const double pairs = c.lengths.q.defined() ? all / of(sequences(c)) : all;
  return 2 * pairs * of(c.Q.size(3) + c.V.size(3)) * share_of(kv_extent);
}

/// Splits -inf conditions off the score into the mask, and returns the traits of the rest.
ScoreTraits examine_score(AttentionSpec& spec) {
  if (!spec.score) return {};
  const ScoreFunction score(spec.score);
  // Without normalization, a score of -inf is a weight and does not mask the key.
  const bool may_split = !spec.blocks && !spec.kv_range && !spec.full_kv_range &&
                         spec.weighting != AttentionNormalization::none;
  const auto split = may_split ? score.split() : std::nullopt;
  if (!split) return score.cost();
  spec.mask = spec.mask ? masks::and_(spec.mask, split->is_visible) : split->is_visible;
  spec.score = split->score;
  return spec.score ? ScoreFunction(spec.score).cost() : ScoreTraits();
}

}  // namespace

AttentionHeuristics::AttentionHeuristics(const AttentionSpec& s, const AttentionSchedule& how,
                                         const AttentionNumerics& how_exactly)
    : spec(s), schedule(how), numerics(how_exactly), score(examine_score(spec)), traversal(spec) {
  score.needs_row_scan = s.weighting == AttentionNormalization::stick_breaking;
  if (!score.needs_row_scan) return;
  score.has_per_element_state = true;
  score.tma_bytes_per_element = 0;
}

TileRequirements AttentionHeuristics::needs(std::int64_t dim, std::int64_t head_dim_v,
                                            bool pack_gqa) const {
  TileRequirements needs{static_cast<int>(dim), static_cast<int>(head_dim_v), score,
                         traversal.is_non_contiguous(), spec.score != nullptr};
  needs.score.has_per_element_state |= pack_gqa && score.is_toeplitz;
  return needs;
}

std::optional<AttentionTileShape> AttentionHeuristics::given_tiles() const {
  if (spec.blocks) return AttentionTileShape{spec.blocks->block_q, spec.blocks->block_kv};
  return traversal.uses_block_list() ? std::nullopt : schedule.tiles;
}

bool AttentionHeuristics::has_boxes(const AttentionCall& c) const {
  return schedule.tma_aux_loads && has_wgmma(c.Q.device()) && is_tma_compatible(c.Q) &&
         is_tma_compatible(c.K) && is_tma_compatible(c.V);
}

AttentionProblem AttentionHeuristics::problem(const AttentionCall& c, bool splits_kv) const {
  AttentionProblem p{.queries = c.rows(), .keys = c.seqlen_kv()};
  if (c.packs_queries() && !c.is_paged) p.keys = ceil_div(p.keys, sequences(c));
  if (spec.align_bottom_right) p.first_query = std::max<std::int64_t>(p.keys - p.queries, 0);
  p.matrices = (c.packs_queries() ? sequences(c) : c.Q.size(0)) * c.Q.size(1);
  p.is_varlen = c.lengths.q.defined() && !c.pack_gqa;
  p.sequences = p.is_varlen ? sequences(c) : 1;
  if (c.is_paged) p.keys *= p.sequences;
  const TileRequirements of_call = needs(c.Q.size(3), c.V.size(3), c.pack_gqa);
  p.head_dim = of_call.dim, p.head_dim_v = of_call.head_dim_v, p.operands = c.Q.dtype();
  p.kv_extent = traversal.kv_extent();
  p.pack_gqa = c.pack_gqa, p.splits_kv = splits_kv;
  p.is_non_contiguous = of_call.is_non_contiguous || uses_block_list(c);
  p.is_data_dependent = traversal.is_data_dependent();
  p.has_score = of_call.has_score, p.reads_kv_index = of_call.score.reads_kv_index;
  p.has_per_element_state = of_call.score.has_per_element_state;
  p.is_toeplitz = of_call.score.is_toeplitz, p.needs_row_scan = of_call.score.needs_row_scan;
  if (has_boxes(c)) p.tma_bytes_per_element = of_call.score.tma_bytes_per_element;
  if (!splits_kv) p.speculation = speculation(c), p.speculation_pays = speculation_pays(c);
  if (uses_block_list(c) && !spec.blocks)
    p.longest_first = !schedule.longest_first   ? AskedFor::open
                      : *schedule.longest_first ? AskedFor::yes
                                                : AskedFor::no;
  return p;
}

AttentionConfig AttentionHeuristics::config(const AttentionCall& c, bool splits_kv) const {
  const AttentionProblem p = problem(c, splits_kv);
  const auto given = given_tiles();
  AttentionConfig config =
      given ? choose_attention(p, device_profile(c.Q.device())) : choose_attention(p, c.Q.device());
  if (given) config.block_q = given->block_q, config.block_kv = given->block_kv;
  const bool is_small = given && p.pack_gqa && p.queries <= kSmallQBlock;
  if (const auto rows = rows_in_n(c)) {
    config.block_q = *rows, config.block_kv = keys_in_m(c);
    return config;
  }
  if (is_small || gathers_rows(c)) config.block_q = kSmallQBlock;
  if (gathers_rows(c) && !given && has_wgmma(c.Q.device()))
    config.block_kv = std::min(config.block_kv, keys_of_paired_ctas(p.head_dim, p.head_dim_v));
  return config;
}

SplitKv AttentionHeuristics::split_kv(const AttentionCall& c) const {
  if (spec.weighting != AttentionNormalization::softmax || c.lengths.q.defined() ||
      uses_block_list(c) || given_tiles() || c.Q.size(2) > kSmallQBlock || !has_wgmma(c.Q.device()))
    return {};
  const std::int64_t tiles = c.Q.size(0) * c.Q.size(1);
  const DeviceProfile& gpu = device_profile(c.Q.device());
  if (tiles == 0 || c.Q.size(2) == 0) return {};
  if (schedule.split_kv) return given_split_kv(*schedule.split_kv, tiles, gpu);
  if (c.K.size(2) < gpu.attention.least_keys_to_split) return {};
  const auto key_bytes = size_bytes(c.K.dtype()) * (c.K.size(3) + c.V.size(3));
  return choose_split_kv({tiles, c.K.size(2), static_cast<int>(key_bytes)}, c.Q.device());
}

std::int64_t AttentionHeuristics::few_queries(const AttentionCall& c) const {
  const std::int64_t group = c.Q.size(1) / c.K.size(1);
  if (!can_gather_queries(c.Q.size(3), c.V.size(3))) return 1;
  return std::max<std::int64_t>(kRowsInN.back() / group, 1);
}

std::optional<int> AttentionHeuristics::rows_in_n(const AttentionCall& c) const {
  const bool is_possible = schedule.keys_in_m.value_or(true) && c.packs_queries() &&
                           !given_tiles() && spec.weighting == AttentionNormalization::softmax;
  if (!is_possible || c.rows() > kRowsInN.back()) return std::nullopt;
  return *std::ranges::lower_bound(kRowsInN, c.rows());
}

int AttentionHeuristics::paired_stages(const AttentionCall& c) const {
  if (!rows_in_n(c) || !has_wgmma(c.Q.device())) return 0;
  const int stages = std::min(kMinPairedStages * paired_keys(c) / keys_in_m(c), kMaxPairedStages);
  return stages >= kMinPairedStages ? stages : 0;
}

int AttentionHeuristics::keys_in_m(const AttentionCall& c) const {
  return paired_keys(c) >= 2 * kKeysInM ? 2 * kKeysInM : kKeysInM;
}

bool AttentionHeuristics::gathers_rows(const AttentionCall& c) const {
  return c.packs_queries() && (rows_in_n(c) || can_gather_queries(c.Q.size(3), c.V.size(3)));
}

std::optional<bool> AttentionHeuristics::packs_sequences() const {
  const bool is_possible = spec.weighting == AttentionNormalization::softmax && !given_tiles() &&
                           !traversal.uses_block_list();
  return is_possible ? schedule.pack_gqa : false;
}

/// The host knows the mean number of keys of packed sequences only. It is assumed that they are
/// uneven, so that division saves the time in which a program reads the mean; the list is written
/// in an additional launch (docs/experiments/2026-11-29-paged-decoding.md).
bool AttentionHeuristics::division_pays(const AttentionCall& c) const {
  constexpr double kListUs = 4, kFactor = 2;
  if (schedule.split_kv) return *schedule.split_kv > 1;
  const AttentionRates& rates = device_profile(c.Q.device()).attention;
  const auto bytes = static_cast<double>(size_bytes(c.K.dtype()) * (c.K.size(3) + c.V.size(3))),
             keys = static_cast<double>(c.K.size(2)) / static_cast<double>(sequences(c));
  return keys * bytes >= kFactor * (kListUs + rates.exchange_us) * rates.cta_bytes_per_us;
}

std::optional<WorkExtents> AttentionHeuristics::listed_work(const AttentionCall& c) const {
  if (!c.packs_queries() || given_tiles() || spec.weighting != AttentionNormalization::softmax ||
      schedule.split_kv == 1 || !(c.is_paged ? c.is_scheduled : division_pays(c)))
    return std::nullopt;
  const AttentionConfig chosen = config(c);
  const std::int64_t tiles = c.K.size(1) * ceil_div<std::int64_t>(c.rows(), chosen.block_q);
  // With rows in M, two CTAs share an SM if threads copy all operands: while one computes, the
  // other one copies. TMA copies boxes of packed sequences, and of the pages of a table.
  const bool has_boxes = !c.is_paged ||
                         (c.has_table && rows_of_page_boxes(c.K.size(2), chosen.block_kv) > 1),
             copies = gathers_rows(c) && has_wgmma(c.Q.device()) && !has_boxes,
             are_paired = rows_in_n(c) ? paired_stages(c) > 0 : copies;
  const std::int64_t programs = std::int64_t{num_sms(c.Q.device())} * (are_paired ? 2 : 1);
  if (!c.is_paged && tiles >= programs) return std::nullopt;  // each sequence has enough programs
  return work_extents(c.lengths.q.size(0) - 1, tiles, programs);
}

AskedFor AttentionHeuristics::speculation(const AttentionCall& c) const {
  if (spec.weighting != AttentionNormalization::softmax) return AskedFor::no;
  const bool asks = numerics.rescaling == Rescaling::never;
  if (!asks && numerics.rescaling != Rescaling::automatic) return AskedFor::no;
  // The first block may contain no keys of some rows of the tile, or may be unknown on the host.
  if (c.is_paged || c.pack_gqa || c.extras.row_max.defined() || uses_block_list(c) ||
      spec.kv_range || c.K.size(2) == 0)
    return AskedFor::no;
  return asks ? AskedFor::yes : AskedFor::open;
}

/// Rows that attend to no key of their tile's first block gain nothing, and with f16 they are
/// recomputed. Position-dependent scores are usually largest next to the query, which is at the end
/// of the keys under causal masks (bench/results/sweeps/2026-11-22-h200-never-rescaled.jsonl).
bool AttentionHeuristics::speculation_pays(const AttentionCall& c) const {
  const KvExtent kv_extent = traversal.kv_extent();
  const bool all_see_key_0 = kv_extent != KvExtent::unknown && !score.reads_kv_index;
  if (traversal.is_data_dependent() || (score.reads_kv_index && kv_extent != KvExtent::causal) ||
      (c.Q.dtype() == DType::f16 && !all_see_key_0))
    return false;
  return has_wgmma(c.Q.device()) &&
         work(c, kv_extent) >= device_profile(c.Q.device()).attention.least_work;
}

bool AttentionHeuristics::uses_block_list(const AttentionCall& c) const {
  return !c.is_paged && (traversal.uses_block_list() || evaluation_pays(c));
}

/// CUDA cores evaluate a mask for a pair in about the time in which tensor cores compute the dots
/// of a pair with head dims of 128. How many blocks will be visited is unknown: a list pays if
/// evaluating the mask takes no longer than the assumed visits, so that little is lost if no block
/// is empty. The mask is evaluated once for batch entries, heads and positions that it does not
/// distinguish. On the host launches cost nothing.
bool AttentionHeuristics::evaluation_pays(const AttentionCall& c) const {
  constexpr double kPairWork = 4 * 128;
  constexpr int kBlock = 128;
  const std::optional<MaskDependence> mask = traversal.evaluable();
  const bool is_varlen = c.lengths.q.defined();
  const std::int64_t queries = is_varlen ? c.lengths.max_seqlen_q : c.Q.size(2);
  if (!mask || schedule.tiles || c.pack_gqa || queries <= kSmallQBlock || c.K.size(2) == 0)
    return false;
  const int query_step = spec.align_bottom_right ? 1 : std::gcd(kBlock, mask->query_step);
  const std::int64_t shared = (mask->on_batch ? 1 : c.Q.size(0)) *
                              (mask->on_head ? 1 : c.Q.size(1)) * query_step *
                              std::gcd(kBlock, mask->key_step);
  const double visits =
      2.0 * static_cast<double>(c.Q.size(3) + c.V.size(3)) * share_of(KvExtent::unknown);
  return kPairWork <= visits * static_cast<double>(shared) &&
         (c.Q.device().on_host() ||
          work(c, KvExtent::full) >= device_profile(c.Q.device()).attention.least_work);
}

AttentionTileShape AttentionHeuristics::list_tiles(const AttentionCall& c) const {
  if (spec.blocks) return *given_tiles();
  AttentionProblem p = problem(c);
  p.is_non_contiguous = true, p.speculation = AskedFor::no;
  return choose_attention(p, c.Q.device()).tiles();
}

/// Scores that depend on positions are usually largest next to the query (ALiBi, KERPLE,
/// forgetting).
bool AttentionHeuristics::iterates_in_reverse() const {
  return score.reads_kv_index && !score.grows_with_distance;
}

int AttentionHeuristics::programs(const AttentionCall& c) const { return num_sms(c.Q.device()); }

QueryTileRows AttentionHeuristics::list_rows(const AttentionCall& c,
                                             const AttentionConfig& config) const {
  const int group = c.pack_gqa ? static_cast<int>(c.Q.size(2) / c.seqlen_q) : 1;
  return {group, spec.align_bottom_right, config.longest_first, c.lengths};
}

BlockListArgs AttentionHeuristics::lists(const Stream& stream, const AttentionCall& c,
                                         const AttentionConfig& config) const {
  if (!uses_block_list(c)) return {};
  return traversal.lists(stream, {c.Q, c.K, c.V, c.O}, config.tiles(), list_rows(c, config))
      .value_or(BlockListArgs{});
}

BlockListSlots AttentionHeuristics::lists(PlanBuilder& plan, const AttentionSlots& slots,
                                          const AttentionCall& c,
                                          const AttentionConfig& config) const {
  if (!uses_block_list(c)) return {};
  return traversal.lists(plan, slots, {c.Q, c.K, c.V, c.O}, config.tiles(), list_rows(c, config))
      .value_or(BlockListSlots{});
}

}  // namespace tegula::kernels
