#include "kernels/attention/spec_facts.h"

#include <algorithm>
#include <bit>

#include "kernels/refuse.h"
#include "tegula/kernels/copy.h"
#include "tegula/kernels/masks.h"
#include "tegula/quotients.h"

namespace tegula {
namespace {

/// One behind the other.
std::int64_t sequences(const AttentionCall& c) {
  return std::max<std::int64_t>(c.lengths.q.size(0) - 1, 1);
}

/// Of the pairs, what masks leave: under those of which little is known, as for a narrow window.
double share_of(KeyReach reach) {
  return reach == KeyReach::all ? 1.0 : reach == KeyReach::up_to_row ? 0.5 : 0.125;
}

/// Of both products, in floating-point operations.
double work(const AttentionCall& c, KeyReach reach) {
  const auto of = [](std::int64_t n) { return static_cast<double>(n); };
  const double all = of(c.Q.size(0)) * of(c.Q.size(1)) * of(c.Q.size(2)) * of(c.K.size(2));
  // Of sequences in one tensor as if all were as long.
  const double pairs = c.lengths.q.defined() ? all / of(sequences(c)) : all;
  return 2 * pairs * of(c.Q.size(3) + c.V.size(3)) * share_of(reach);
}

/// Clusters that run at once: some GPCs have SMs left that make none, and what then waits for
/// others takes twice the time.
std::int64_t clusters_at_once(int programs, const AttentionGpu& gpu) {
  const int left_over = gpu.sms / gpu.profile->attention.sms_per_leftover;
  return (programs <= 2 ? gpu.sms : gpu.sms - left_over) / programs;
}

/// So many programs in the largest clusters of which all tiles' run at once, or in one.
KeySplits given_splits(int all, std::int64_t tiles, const AttentionGpu& gpu) {
  int largest = 1;
  for (const int n : kKeyClusters) {
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
double time_of(const KeySplits& splits, std::int64_t tiles, double bytes_of_tile,
               const AttentionRates& r) {
  const auto programs = static_cast<double>(splits.all());
  const double reading =
      std::max(bytes_of_tile / (r.cta_bytes_per_us * programs),
               bytes_of_tile * static_cast<double>(tiles) / r.memory_bytes_per_us);
  double meeting =
      splits.programs > 1
          ? r.cluster_us +
                r.cluster_doubling_us * std::bit_width(static_cast<unsigned>(splits.programs) / 2)
          : 0;
  const std::int64_t further_eights = (splits.clusters - 1) / 8;
  if (splits.clusters > 1)
    meeting += r.exchange_us + r.exchange_eight_us * static_cast<double>(further_eights);
  return reading + meeting;
}

/// The fastest that run at once and have keys enough.
KeySplits best_splits(std::int64_t tiles, std::int64_t keys, double bytes_of_key,
                      const AttentionGpu& gpu) {
  const AttentionRates& r = gpu.profile->attention;
  const double bytes = bytes_of_key * static_cast<double>(keys);
  KeySplits best;
  double least = time_of(best, tiles, bytes, r);
  for (const int n : kKeyClusters) {
    if (n == 1) continue;
    const std::int64_t room =
        std::min({clusters_at_once(n, gpu) / tiles, keys / (n * r.least_split_keys),
                  std::int64_t{kMostKeySplits / n}});
    for (const std::int64_t clusters : {std::int64_t{1}, std::int64_t{8}, room}) {
      const KeySplits splits{n, std::min(room, clusters)};
      const double time = time_of(splits, tiles, bytes, r);
      if (room < 1 || time >= least) continue;
      least = time;
      best = splits;
    }
  }
  return best;
}

/// Takes a score apart, and tells what is left of it.
ScoreCost examine_score(AttentionSpec& spec) {
  if (!spec.score) return {};
  const ScoreFunction score(spec.score);
  // A weight of -inf is no key left out.
  const bool may_split =
      !spec.blocks && !spec.range && !spec.full && spec.weighting != Weighting::scores;
  const auto split = may_split ? score.split() : std::nullopt;
  if (!split) return score.cost();
  spec.mask = spec.mask ? masks::and_(spec.mask, split->is_visible) : split->is_visible;
  spec.score = split->score;
  return spec.score ? ScoreFunction(spec.score).cost() : ScoreCost();
}

AttentionGpu gpu_of(Device device) {
  return {&device_profile(device), multiprocessors(device), has_wgmma(device)};
}

}  // namespace

SpecFacts::SpecFacts(const AttentionSpec& s, const AttentionSchedule& how,
                     const AttentionNumerics& how_exactly)
    : spec(s), schedule(how), numerics(how_exactly), score(examine_score(spec)), way(spec) {
  score.of_row = s.weighting == Weighting::stick_breaking;
  if (!score.of_row) return;
  score.of_element = true;
  score.box_bytes = 0;
}

TileNeeds SpecFacts::needs(std::int64_t dim, std::int64_t value_dim, bool packs_heads) const {
  TileNeeds needs{static_cast<int>(dim), static_cast<int>(value_dim), score, way.has_gaps(),
                  spec.score != nullptr};
  needs.score.of_element |= packs_heads && score.of_distance;
  return needs;
}

std::optional<AttentionTiles> SpecFacts::given_tiles() const {
  if (spec.blocks) return AttentionTiles{spec.blocks->block_q, spec.blocks->block_kv};
  return way.is_listed() ? std::nullopt : schedule.tiles;
}

TileForm SpecFacts::form(const AttentionCall& c) const {
  if (c.packs_heads || c.lengths.q.defined()) return TileForm::usual;
  AttentionLengths lengths{c.Q.size(2), c.K.size(2), 0, c.Q.size(0) * c.Q.size(1)};
  if (spec.queries_at_end) lengths.first_query = lengths.keys - lengths.queries;
  const TileNeeds of_call = needs(c.Q.size(3), c.V.size(3), c.packs_heads);
  const bool has_boxes = score.box_bytes > 0 && schedule.tma_loads && has_wgmma(c.Q.device()) &&
                         tma_takes(c.Q) && tma_takes(c.K) && tma_takes(c.V);
  if (has_boxes && boxed_tiles(of_call).keys > attention_tiles(of_call).keys)
    return TileForm::boxed;
  return best_form(of_call, way.reach(), lengths, gpu_of(c.Q.device()));
}

AttentionTiles SpecFacts::tiles(const AttentionCall& c) const {
  const auto given = given_tiles();
  AttentionTiles t =
      given ? *given
            : tiles_of(form(c), needs(c.Q.size(3), c.V.size(3), c.packs_heads), way.reach());
  if (has_few_rows(c)) t.queries = kFewRows;
  return t;
}

bool SpecFacts::has_few_rows(const AttentionCall& c) {
  return c.packs_heads && c.Q.size(2) <= kFewRows;
}

KeySplits SpecFacts::key_splits(const AttentionCall& c) const {
  if (spec.weighting != Weighting::softmax || c.lengths.q.defined() || way.is_listed() ||
      given_tiles() || c.Q.size(2) > kFewRows || !has_wgmma(c.Q.device()))
    return {};
  const std::int64_t tiles = c.Q.size(0) * c.Q.size(1);
  const AttentionGpu gpu = gpu_of(c.Q.device());
  if (tiles == 0 || c.Q.size(2) == 0) return {};
  if (schedule.key_splits) return given_splits(*schedule.key_splits, tiles, gpu);
  if (c.K.size(2) < gpu.profile->attention.least_keys_to_split) return {};
  const auto bytes_of_key =
      static_cast<double>(size_bytes(c.K.dtype()) * (c.K.size(3) + c.V.size(3)));
  return best_splits(tiles, c.K.size(2), bytes_of_key, gpu);
}

bool SpecFacts::may_leave_doubts(const AttentionCall& c) const {
  if (spec.weighting != Weighting::softmax) return false;
  const bool asks = numerics.rescaling == Rescaling::never;
  if (!asks && numerics.rescaling != Rescaling::automatic) return false;
  // Rows of a tile may have no keys there, or none that is known.
  if (c.packs_heads || c.extras.row_max.defined() || way.is_listed() || spec.blocks || spec.range ||
      c.K.size(2) == 0)
    return false;
  if (asks) return true;
  // Rows that begin behind their tile's first block gain nothing, and of halves they are computed
  // again. Scores that look at positions are largest next to the query where keys end there, as a
  // rule (bench/results/sweeps/2026-11-22-h200-never-rescaled.jsonl).
  const KeyReach reach = way.reach();
  const bool all_see_key_0 = reach != KeyReach::unknown && !score.of_position;
  if (way.depends_on_data() || (score.of_position && reach != KeyReach::up_to_row) ||
      (c.Q.dtype() == DType::f16 && !all_see_key_0))
    return false;
  return has_wgmma(c.Q.device()) &&
         work(c, reach) >= device_profile(c.Q.device()).attention.least_work;
}

/// Scores of positions are largest next to the query, as a rule (ALiBi, KERPLE, forgetting).
bool SpecFacts::goes_backwards() const { return score.of_position && !score.rises_away; }

int SpecFacts::programs(const AttentionCall& c) const { return gpu_of(c.Q.device()).sms; }

bool SpecFacts::longest_first(const AttentionCall& c, const AttentionTiles& tiles) const {
  if (schedule.longest_first) return *schedule.longest_first;
  constexpr std::int64_t kMostShare = 16, kStepsByShare = 4, kMostRanked = 512;
  const std::int64_t entries = c.lengths.q.defined() ? sequences(c) : 1,
                     of_head = ceil_div(c.Q.size(2), tiles.queries),
                     all = c.Q.size(0) * c.Q.size(1) * of_head,
                     steps = ceil_div(c.K.size(2) / entries, tiles.keys), sms = programs(c);
  return of_head > 1 && of_head <= kMostRanked && all > sms && all <= kMostShare * sms &&
         steps * sms >= kStepsByShare * all;
}

ListArgs SpecFacts::lists(const Stream& stream, const AttentionCall& c,
                          const AttentionTiles& tiles) const {
  if (spec.blocks && c.lengths.q.defined()) refuse_call(Mistake::varlen_blocks);
  const int group = c.packs_heads ? static_cast<int>(c.Q.size(2) / c.q_length) : 1;
  return way
      .lists(stream, {c.Q, c.K, c.V, c.O}, tiles,
             {group, spec.queries_at_end, longest_first(c, tiles), c.lengths})
      .value_or(ListArgs{});
}

}  // namespace tegula
