#include "kernels/attention/heuristics.h"

#include <algorithm>
#include <bit>

#include "kernels/argument_error.h"
#include "tegula/int_math.h"
#include "tegula/kernels/copy.h"
#include "tegula/kernels/masks.h"

namespace tegula {
namespace {

/// Number of consecutive sequences.
std::int64_t sequences(const AttentionCall& c) {
  return std::max<std::int64_t>(c.lengths.q.size(0) - 1, 1);
}

/// Estimated fraction of the query-key pairs that a mask keeps; masks that are not analysable count
/// as a narrow window.
double share_of(KvExtent kv_extent) {
  return kv_extent == KvExtent::full ? 1.0 : kv_extent == KvExtent::causal ? 0.5 : 0.125;
}

/// Floating-point operations of both GEMMs.
double work(const AttentionCall& c, KvExtent kv_extent) {
  const auto of = [](std::int64_t n) { return static_cast<double>(n); };
  const double all = of(c.Q.size(0)) * of(c.Q.size(1)) * of(c.Q.size(2)) * of(c.K.size(2));
  // Sequences in one tensor count as if all were equally long.
  const double pairs = c.lengths.q.defined() ? all / of(sequences(c)) : all;
  return 2 * pairs * of(c.Q.size(3) + c.V.size(3)) * share_of(kv_extent);
}

/// Clusters that run at once: some GPCs have SMs left that make none, and what then waits for
/// others takes twice the time.
std::int64_t clusters_at_once(int programs, const AttentionGpu& gpu) {
  const int left_over = gpu.num_sms / gpu.profile->attention.sms_per_leftover;
  return (programs <= 2 ? gpu.num_sms : gpu.num_sms - left_over) / programs;
}

/// Splits the keys over `all` CTAs: in the largest clusters such that all tiles' clusters are
/// co-resident, else in one cluster.
SplitKv given_splits(int all, std::int64_t tiles, const AttentionGpu& gpu) {
  int largest = 1;
  for (const int n : kSplitKvClusters) {
    if (n == 1 || all % n != 0) continue;
    largest = std::max(largest, n);
    const bool are_several = tiles * (all / n) <= clusters_at_once(n, gpu);
    if (n == all || are_several) return {n, all / n};
  }
  return {largest, 1};
}

/// In microseconds: a program reads a part of its tile's keys and
/// values, all together no more than the memory gives; then the programs of a cluster meet, and
/// clusters in memory, eight at a time.
double time_of(const SplitKv& splits, std::int64_t tiles, double bytes_of_tile,
               const AttentionRates& r) {
  const auto programs = static_cast<double>(splits.all());
  const double reading =
      std::max(bytes_of_tile / (r.cta_bytes_per_us * programs),
               bytes_of_tile * static_cast<double>(tiles) / r.memory_bytes_per_us);
  double combining =
      splits.cluster_ctas > 1
          ? r.cluster_us + r.cluster_doubling_us *
                               std::bit_width(static_cast<unsigned>(splits.cluster_ctas) / 2)
          : 0;
  const std::int64_t more_eights = (splits.clusters - 1) / 8;
  if (splits.clusters > 1)
    combining += r.exchange_us + r.exchange_eight_us * static_cast<double>(more_eights);
  return reading + combining;
}

/// The fastest that run at once and have keys enough.
SplitKv best_splits(std::int64_t tiles, std::int64_t keys, double bytes_of_key,
                    const AttentionGpu& gpu) {
  const AttentionRates& r = gpu.profile->attention;
  const double bytes = bytes_of_key * static_cast<double>(keys);
  SplitKv best;
  double least = time_of(best, tiles, bytes, r);
  for (const int n : kSplitKvClusters) {
    if (n == 1) continue;
    const std::int64_t room =
        std::min({clusters_at_once(n, gpu) / tiles, keys / (n * r.least_split_keys),
                  std::int64_t{kMaxSplitKv / n}});
    for (const std::int64_t clusters : {std::int64_t{1}, std::int64_t{8}, room}) {
      const SplitKv splits{n, std::min(room, clusters)};
      const double time = time_of(splits, tiles, bytes, r);
      if (room < 1 || time >= least) continue;
      least = time;
      best = splits;
    }
  }
  return best;
}

/// Takes a score apart, and tells what is left of it.
ScoreTraits examine_score(AttentionSpec& spec) {
  if (!spec.score) return {};
  const ScoreFunction score(spec.score);
  // A weight of -inf is no key left out.
  const bool may_split = !spec.blocks && !spec.kv_range && !spec.full_kv_range &&
                         spec.weighting != AttentionNormalization::none;
  const auto split = may_split ? score.split() : std::nullopt;
  if (!split) return score.cost();
  spec.mask = spec.mask ? masks::and_(spec.mask, split->is_visible) : split->is_visible;
  spec.score = split->score;
  return spec.score ? ScoreFunction(spec.score).cost() : ScoreTraits();
}

AttentionGpu gpu_of(Device device) {
  return {&device_profile(device), num_sms(device), has_wgmma(device)};
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

TileShapeClass AttentionHeuristics::form(const AttentionCall& c) const {
  if (c.pack_gqa || c.lengths.q.defined()) return TileShapeClass::standard;
  AttentionLengths lengths{c.Q.size(2), c.K.size(2), 0, c.Q.size(0) * c.Q.size(1)};
  if (spec.align_bottom_right) lengths.first_query = lengths.keys - lengths.queries;
  const TileRequirements of_call = needs(c.Q.size(3), c.V.size(3), c.pack_gqa);
  const bool has_boxes = score.tma_bytes_per_element > 0 && schedule.tma_aux_loads &&
                         has_wgmma(c.Q.device()) && is_tma_compatible(c.Q) &&
                         is_tma_compatible(c.K) && is_tma_compatible(c.V);
  if (has_boxes && tma_bias_tiles(of_call).block_kv > attention_tiles(of_call).block_kv)
    return TileShapeClass::tma_bias;
  return choose_tile_shape(of_call, traversal.kv_extent(), lengths, gpu_of(c.Q.device()));
}

AttentionTileShape AttentionHeuristics::tiles(const AttentionCall& c) const {
  const auto given = given_tiles();
  AttentionTileShape t =
      given ? *given
            : tiles_of(form(c), needs(c.Q.size(3), c.V.size(3), c.pack_gqa), traversal.kv_extent());
  if (is_small_q(c)) t.block_q = kSmallQBlock;
  return t;
}

bool AttentionHeuristics::is_small_q(const AttentionCall& c) {
  return c.pack_gqa && c.Q.size(2) <= kSmallQBlock;
}

SplitKv AttentionHeuristics::split_kv(const AttentionCall& c) const {
  if (spec.weighting != AttentionNormalization::softmax || c.lengths.q.defined() ||
      traversal.uses_block_list() || given_tiles() || c.Q.size(2) > kSmallQBlock ||
      !has_wgmma(c.Q.device()))
    return {};
  const std::int64_t tiles = c.Q.size(0) * c.Q.size(1);
  const AttentionGpu gpu = gpu_of(c.Q.device());
  if (tiles == 0 || c.Q.size(2) == 0) return {};
  if (schedule.split_kv) return given_splits(*schedule.split_kv, tiles, gpu);
  if (c.K.size(2) < gpu.profile->attention.least_keys_to_split) return {};
  const auto bytes_of_key =
      static_cast<double>(size_bytes(c.K.dtype()) * (c.K.size(3) + c.V.size(3)));
  return best_splits(tiles, c.K.size(2), bytes_of_key, gpu);
}

bool AttentionHeuristics::uses_speculative_softmax(const AttentionCall& c) const {
  if (spec.weighting != AttentionNormalization::softmax) return false;
  const bool asks = numerics.rescaling == Rescaling::never;
  if (!asks && numerics.rescaling != Rescaling::automatic) return false;
  // Rows of a tile may have no keys there, or none that is known.
  if (c.pack_gqa || c.extras.row_max.defined() || traversal.uses_block_list() || spec.blocks ||
      spec.kv_range || c.K.size(2) == 0)
    return false;
  if (asks) return true;
  // Rows that begin after their tile's first block gain nothing, and in 16 bits they are
  // recomputed. Scores that depend on positions are usually largest next to the query if keys end
  // there (bench/results/sweeps/2026-11-22-h200-never-rescaled.jsonl).
  const KvExtent kv_extent = traversal.kv_extent();
  const bool all_see_key_0 = kv_extent != KvExtent::unknown && !score.reads_kv_index;
  if (traversal.is_data_dependent() || (score.reads_kv_index && kv_extent != KvExtent::causal) ||
      (c.Q.dtype() == DType::f16 && !all_see_key_0))
    return false;
  return has_wgmma(c.Q.device()) &&
         work(c, kv_extent) >= device_profile(c.Q.device()).attention.least_work;
}

/// Scores that depend on positions are usually largest next to the query (ALiBi, KERPLE,
/// forgetting).
bool AttentionHeuristics::iterates_in_reverse() const {
  return score.reads_kv_index && !score.grows_with_distance;
}

int AttentionHeuristics::programs(const AttentionCall& c) const {
  return gpu_of(c.Q.device()).num_sms;
}

bool AttentionHeuristics::longest_first(const AttentionCall& c,
                                        const AttentionTileShape& tiles) const {
  if (schedule.longest_first) return *schedule.longest_first;
  constexpr std::int64_t kMaxShare = 16, kStepsByShare = 4, kMaxRanked = 512;
  const std::int64_t entries = c.lengths.q.defined() ? sequences(c) : 1,
                     of_head = ceil_div(c.Q.size(2), tiles.block_q),
                     all = c.Q.size(0) * c.Q.size(1) * of_head,
                     steps = ceil_div(c.K.size(2) / entries, tiles.block_kv), sms = programs(c);
  return of_head > 1 && of_head <= kMaxRanked && all > sms && all <= kMaxShare * sms &&
         steps * sms >= kStepsByShare * all;
}

BlockListArgs AttentionHeuristics::lists(const Stream& stream, const AttentionCall& c,
                                         const AttentionTileShape& tiles) const {
  if (spec.blocks && c.lengths.q.defined()) throw_argument_error(ErrorId::varlen_blocks);
  const int group = c.pack_gqa ? static_cast<int>(c.Q.size(2) / c.seqlen_q) : 1;
  return traversal
      .lists(stream, {c.Q, c.K, c.V, c.O}, tiles,
             {group, spec.align_bottom_right, longest_first(c, tiles), c.lengths})
      .value_or(BlockListArgs{});
}

}  // namespace tegula
