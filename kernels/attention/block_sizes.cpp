#include "kernels/attention/block_sizes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tegula/quotients.h"

namespace tegula {
namespace {

constexpr int kStep = 16, kMaxKeys = 128, kMaxWideKeys = 224, kCostlyKeys = 64, kRows = 128,
              kBytes = 2;
/// Rows of tiles of three warpgroups, and fewer keys a step than gain anything there.
constexpr int kTallRows = 192, kLimits = 12, kLeastTallKeys = 96;
constexpr int kWarps = 8, kTallWarps = 12, kSlots = 2;
/// Registers that rows' state and addresses take, and those that a producer thread has use for.
constexpr int kState = 40, kTallState = 32, kProducer = 40;

/// Registers of a thread for accumulators and weights: beside a producer with registers of its own,
/// beside one with the fewest, and of tall tiles. Older targets take the tiles of the host's
/// profile, too.
int registers_for_sums() { return host_profile().consumer_registers(kWarps, kProducer) - kState; }
int all_registers_for_sums() { return host_profile().consumer_registers(kWarps) - kState; }
int tall_registers_for_sums() { return host_profile().consumer_registers(kTallWarps) - kTallState; }

/// Keys of which shared memory holds two slots beside the queries, `beside` bytes of each pair
/// included.
int keys_by_shared(int dim, int value_dim, int rows = kRows, int beside = 0) {
  const int bytes = static_cast<int>(host_profile().ring_bytes());
  return (bytes - rows * dim * kBytes) / (kSlots * ((dim + value_dim) * kBytes + rows * beside));
}

/// What a step takes beside its keys, in keys: barriers, maxima over lanes, the rescaled output.
double step_keys(int value_dim, const AttentionRates& r) {
  return r.block_keys + r.block_keys_per_dim * value_dim;
}
/// Time of a row of a tall tile by that of one of 128 rows and as many keys a step.
double tall_row(KeyReach reach, const AttentionRates& r) {
  return reach == KeyReach::all ? r.tall_row_full : r.tall_row_masked;
}

/// What a tile of queries needs on average where masks end at its rows.
double keys_up_to_row(int rows, const AttentionLengths& l) {
  const auto first = static_cast<double>(l.first_query), q = static_cast<double>(l.queries),
             k = static_cast<double>(l.keys);
  // Rows behind the last key need all.
  const double rising = std::clamp(k - first, 0.0, q);
  return (rising * (first + rising / 2) + (q - rising) * k) / std::max(q, 1.0) + rows / 2.0;
}

/// Of a row of a tile, on average, in keys.
double row_cost(const AttentionTiles& t, int value_dim, KeyReach reach, const AttentionLengths& l,
                const AttentionRates& r) {
  const bool is_all = reach == KeyReach::all;
  // Blocks end behind the last key that is needed, by this on average where ends are multiples of
  // the rows.
  const double spare = is_all ? 0 : (t.keys - std::gcd(t.keys, t.queries)) / 2.0;
  const double needed = is_all ? static_cast<double>(ceil_div(l.keys, t.keys) * t.keys)
                               : keys_up_to_row(t.queries, l);
  // One more step: the first scores and the last weights have nothing beside them.
  const double steps = (needed + spare) / t.keys + 1;
  return steps * (t.keys + step_keys(value_dim, r)) +
         (is_all ? 0 : r.masked_share * (t.queries + 2 * spare));
}

/// Of all rows, those behind the last ones and those that SMs without a tile could have computed
/// included.
double total_cost(TileForm form, const AttentionTiles& t, int value_dim, KeyReach reach,
                  const AttentionLengths& l, const AttentionGpu& gpu) {
  const AttentionRates& r = gpu.profile->attention;
  const auto tiles = static_cast<double>(l.matrices * ceil_div(l.queries, t.queries)) / gpu.sms;
  // Tiles of different lengths even out, but for those of one round.
  const double rounds = reach == KeyReach::all ? std::ceil(tiles) : std::max(tiles, 1.0);
  return rounds * t.queries * row_cost(t, value_dim, reach, l, r) *
         (form == TileForm::tall ? tall_row(reach, r) : 1.0);
}

/// Forms that were measured to be worth a kernel of their own somewhere.
bool may_be(TileForm form, const TileNeeds& needs, const AttentionTiles& t,
            const AttentionGpu& gpu) {
  const bool is_plain = !needs.has_score && !needs.score.of_element && !needs.score.of_position;
  if (form == TileForm::usual) return true;
  if (needs.has_gaps || !is_plain) return false;
  return form == TileForm::wide ? t.keys > attention_tiles(needs).keys
                                : gpu.has_wgmma && t.keys >= kLeastTallKeys;
}

}  // namespace

int padded_head_dim(int dim) { return (dim + kStep - 1) / kStep * kStep; }

AttentionTiles attention_tiles(const TileNeeds& needs) {
  const int dim = padded_head_dim(needs.dim), value_dim = padded_head_dim(needs.value_dim);
  // A thread of 8 warps: scores (keys / 2), two steps' weights in 16 bits (keys / 2), the output.
  // Where that leaves none free, what finds the next block needs some, and so do positions.
  const bool is_full = value_dim > kMaxKeys;
  const int others = needs.has_gaps + needs.score.of_position, spare = is_full ? 0 : 1;
  const int costly = kCostlyKeys / (is_full ? 2 : 1) / (needs.score.of_row ? 2 : 1);
  int by_registers = registers_for_sums() - value_dim / 2 - std::max(others - spare, 0) * kStep;
  // What a lane computes for others takes some, but less than what each element computes.
  if (needs.score.of_distance)
    by_registers =
        std::max(by_registers - (is_full ? 2 : 1) * kStep, std::min(by_registers, costly));
  const int by_shared = keys_by_shared(dim, value_dim);
  const int most = needs.score.of_element ? costly : kMaxKeys;
  return {kRows, std::min({most, by_registers, by_shared}) / kStep * kStep};
}

AttentionTiles wide_tiles(const TileNeeds& needs) {
  const int dim = padded_head_dim(needs.dim), value_dim = padded_head_dim(needs.value_dim);
  // Scores (keys / 2), a step's weights in 16 bits (keys / 4), the output.
  const int by_registers = (all_registers_for_sums() - value_dim / 2) * 4 / 3;
  return {kRows,
          std::min({kMaxWideKeys, by_registers, keys_by_shared(dim, value_dim)}) / kStep * kStep};
}

AttentionTiles tall_tiles(const TileNeeds& needs, KeyReach reach) {
  const int dim = padded_head_dim(needs.dim), value_dim = padded_head_dim(needs.value_dim);
  // As of wide ones.
  const int limits = reach != KeyReach::unknown ? 0 : needs.has_score ? 2 * kLimits : kLimits;
  const int left = tall_registers_for_sums() - value_dim / 2 - limits;
  const int by_registers = left * 4 / 3, by_shared = keys_by_shared(dim, value_dim, kTallRows);
  const bool is_costly = needs.score.of_element || needs.score.of_distance;
  const int most = is_costly ? kCostlyKeys : kMaxKeys;
  return {kTallRows, std::min({most, by_registers, by_shared}) / kStep * kStep};
}

AttentionTiles boxed_tiles(const TileNeeds& needs) {
  constexpr int kOfF32 = 4;
  TileNeeds others = needs;
  others.score.of_element = false;
  const AttentionTiles all = attention_tiles(others);
  const int bytes = needs.score.box_bytes, dim = padded_head_dim(needs.dim),
            value_dim = padded_head_dim(needs.value_dim);
  // Words take as many registers as the sums they are added to; halves find room.
  const int by_registers =
      bytes < kOfF32 ? all.keys
                     : (registers_for_sums() - value_dim / 2) * kOfF32 / (kOfF32 + bytes / 2);
  const int by_shared = keys_by_shared(dim, value_dim, kRows, bytes);
  return {kRows, std::min({all.keys, by_registers, by_shared}) / kStep * kStep};
}

AttentionTiles tiles_of(TileForm form, const TileNeeds& needs, KeyReach reach) {
  if (form == TileForm::usual) return attention_tiles(needs);
  if (form == TileForm::boxed) return boxed_tiles(needs);
  return form == TileForm::wide ? wide_tiles(needs) : tall_tiles(needs, reach);
}

TileForm best_form(const TileNeeds& needs, KeyReach reach, const AttentionLengths& lengths,
                   const AttentionGpu& gpu) {
  if (reach == KeyReach::unknown) return TileForm::usual;
  const auto cost = [&](TileForm form) {
    return total_cost(form, tiles_of(form, needs, reach), needs.value_dim, reach, lengths, gpu);
  };
  TileForm best = TileForm::usual;
  for (const TileForm form : {TileForm::wide, TileForm::tall})
    if (may_be(form, needs, tiles_of(form, needs, reach), gpu) &&
        cost(form) < gpu.profile->attention.worthwhile * cost(best))
      best = form;
  return best;
}

}  // namespace tegula
