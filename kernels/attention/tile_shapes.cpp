#include "kernels/attention/tile_shapes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tegula/int_math.h"

namespace tegula {
namespace {

constexpr int kStep = 16, kMaxKeys = 128, kMaxWideKeys = 224, kCostlyKeys = 64, kRows = 128,
              kBytes = 2;
/// Rows of tiles of three warpgroups, and fewer keys a step than gain anything there.
constexpr int kTallRows = 192, kLimits = 12, kMinTallKeys = 96;
constexpr int kWarps = 8, kTallWarps = 12, kSlots = 2;
/// Registers that rows' state and addresses take, and those that a producer thread has use for.
constexpr int kState = 40, kTallState = 32, kProducer = 40;

/// Registers of a thread for accumulators and weights: beside a producer with registers of its own,
/// beside one with the fewest, and of tall tiles. Older targets take the tiles of the host's
/// profile, too.
int registers_for_sums() { return host_profile().consumer_registers(kWarps, kProducer) - kState; }
int all_registers_for_sums() { return host_profile().consumer_registers(kWarps) - kState; }
int tall_registers_for_sums() { return host_profile().consumer_registers(kTallWarps) - kTallState; }

/// Keys for which shared memory holds two stages next to the queries, `pair_bytes` of each pair
/// included.
int keys_by_shared(int dim, int head_dim_v, int rows = kRows, int pair_bytes = 0) {
  const int bytes = static_cast<int>(host_profile().ring_bytes());
  return (bytes - rows * dim * kBytes) /
         (kSlots * ((dim + head_dim_v) * kBytes + rows * pair_bytes));
}

/// What a step takes beside its keys, in keys: barriers, maxima over lanes, the rescaled output.
double step_keys(int head_dim_v, const AttentionRates& r) {
  return r.block_keys + r.block_keys_per_dim * head_dim_v;
}
/// Time of a row of a tall tile by that of one of 128 rows and as many keys a step.
double tall_row(KvExtent kv_extent, const AttentionRates& r) {
  return kv_extent == KvExtent::full ? r.tall_row_full : r.tall_row_masked;
}

/// Average keys of a query tile under a causal mask.
double keys_up_to_row(int rows, const AttentionLengths& l) {
  const auto first = static_cast<double>(l.first_query), q = static_cast<double>(l.queries),
             k = static_cast<double>(l.keys);
  // Rows beyond the last key need all.
  const double rising = std::clamp(k - first, 0.0, q);
  return (rising * (first + rising / 2) + (q - rising) * k) / std::max(q, 1.0) + rows / 2.0;
}

/// Average cost of a row of a tile, in keys.
double row_cost(const AttentionTileShape& t, int head_dim_v, KvExtent kv_extent,
                const AttentionLengths& l, const AttentionRates& r) {
  const bool is_all = kv_extent == KvExtent::full;
  // kv blocks end after the last key that is needed, by this on average if bounds are multiples of
  // the rows.
  const double spare = is_all ? 0 : (t.block_kv - std::gcd(t.block_kv, t.block_q)) / 2.0;
  const double needed = is_all ? static_cast<double>(ceil_div(l.keys, t.block_kv) * t.block_kv)
                               : keys_up_to_row(t.block_q, l);
  // One more iteration: the first GEMM0 and the last GEMM1 overlap nothing.
  const double steps = (needed + spare) / t.block_kv + 1;
  return steps * (t.block_kv + step_keys(head_dim_v, r)) +
         (is_all ? 0 : r.masked_share * (t.block_q + 2 * spare));
}

/// Cost of all rows, including those beyond the last query and those that SMs without a tile could
/// have computed.
double total_cost(TileShapeClass form, const AttentionTileShape& t, int head_dim_v,
                  KvExtent kv_extent, const AttentionLengths& l, const AttentionGpu& gpu) {
  const AttentionRates& r = gpu.profile->attention;
  const auto tiles = static_cast<double>(l.matrices * ceil_div(l.queries, t.block_q)) / gpu.num_sms;
  // Tiles of different lengths even out, except within one wave.
  const double rounds = kv_extent == KvExtent::full ? std::ceil(tiles) : std::max(tiles, 1.0);
  return rounds * t.block_q * row_cost(t, head_dim_v, kv_extent, l, r) *
         (form == TileShapeClass::three_warpgroups ? tall_row(kv_extent, r) : 1.0);
}

/// Forms that were measured to be worth a kernel of their own somewhere.
bool may_be(TileShapeClass form, const TileRequirements& needs, const AttentionTileShape& t,
            const AttentionGpu& gpu) {
  const bool is_plain =
      !needs.has_score && !needs.score.has_per_element_state && !needs.score.reads_kv_index;
  if (form == TileShapeClass::standard) return true;
  if (needs.is_non_contiguous || !is_plain) return false;
  return form == TileShapeClass::large_n ? t.block_kv > attention_tiles(needs).block_kv
                                         : gpu.has_wgmma && t.block_kv >= kMinTallKeys;
}

}  // namespace

int padded_head_dim(int dim) { return (dim + kStep - 1) / kStep * kStep; }

AttentionTileShape attention_tiles(const TileRequirements& needs) {
  const int dim = padded_head_dim(needs.dim), head_dim_v = padded_head_dim(needs.head_dim_v);
  // Registers of a thread of 8 warps: scores (block_kv / 2), two blocks of P in 16 bits (block_kv /
  // 2), the output accumulator. If that leaves none free, the search for the next block needs some,
  // and so do positions.
  const bool is_full = head_dim_v > kMaxKeys;
  const int others = needs.is_non_contiguous + needs.score.reads_kv_index, spare = is_full ? 0 : 1;
  const int costly = kCostlyKeys / (is_full ? 2 : 1) / (needs.score.needs_row_scan ? 2 : 1);
  int by_registers = registers_for_sums() - head_dim_v / 2 - std::max(others - spare, 0) * kStep;
  // A score that lanes compute for others takes some registers, but fewer than one per element.
  if (needs.score.is_toeplitz)
    by_registers =
        std::max(by_registers - (is_full ? 2 : 1) * kStep, std::min(by_registers, costly));
  const int by_shared = keys_by_shared(dim, head_dim_v);
  const int most = needs.score.has_per_element_state ? costly : kMaxKeys;
  return {kRows, std::min({most, by_registers, by_shared}) / kStep * kStep};
}

AttentionTileShape large_n_tiles(const TileRequirements& needs) {
  const int dim = padded_head_dim(needs.dim), head_dim_v = padded_head_dim(needs.head_dim_v);
  // Registers: scores (block_kv / 2), one block of P in 16 bits (block_kv / 4), the output
  // accumulator.
  const int by_registers = (all_registers_for_sums() - head_dim_v / 2) * 4 / 3;
  return {kRows,
          std::min({kMaxWideKeys, by_registers, keys_by_shared(dim, head_dim_v)}) / kStep * kStep};
}

AttentionTileShape three_warpgroup_tiles(const TileRequirements& needs, KvExtent kv_extent) {
  const int dim = padded_head_dim(needs.dim), head_dim_v = padded_head_dim(needs.head_dim_v);
  // Registers as in large_n_tiles(): scores (block_kv / 2), one block of P in 16 bits (block_kv /
  // 4), the output accumulator.
  const int limits = kv_extent != KvExtent::unknown ? 0 : needs.has_score ? 2 * kLimits : kLimits;
  const int left = tall_registers_for_sums() - head_dim_v / 2 - limits;
  const int by_registers = left * 4 / 3, by_shared = keys_by_shared(dim, head_dim_v, kTallRows);
  const bool is_costly = needs.score.has_per_element_state || needs.score.is_toeplitz;
  const int most = is_costly ? kCostlyKeys : kMaxKeys;
  return {kTallRows, std::min({most, by_registers, by_shared}) / kStep * kStep};
}

AttentionTileShape tma_bias_tiles(const TileRequirements& needs) {
  constexpr int kOfF32 = 4;
  TileRequirements others = needs;
  others.score.has_per_element_state = false;
  const AttentionTileShape all = attention_tiles(others);
  const int bytes = needs.score.tma_bytes_per_element, dim = padded_head_dim(needs.dim),
            head_dim_v = padded_head_dim(needs.head_dim_v);
  // 32-bit score terms take as many registers as the accumulator they are added to; 16-bit ones
  // find room.
  const int by_registers =
      bytes < kOfF32 ? all.block_kv
                     : (registers_for_sums() - head_dim_v / 2) * kOfF32 / (kOfF32 + bytes / 2);
  const int by_shared = keys_by_shared(dim, head_dim_v, kRows, bytes);
  return {kRows, std::min({all.block_kv, by_registers, by_shared}) / kStep * kStep};
}

AttentionTileShape tiles_of(TileShapeClass form, const TileRequirements& needs,
                            KvExtent kv_extent) {
  if (form == TileShapeClass::standard) return attention_tiles(needs);
  if (form == TileShapeClass::tma_bias) return tma_bias_tiles(needs);
  return form == TileShapeClass::large_n ? large_n_tiles(needs)
                                         : three_warpgroup_tiles(needs, kv_extent);
}

TileShapeClass choose_tile_shape(const TileRequirements& needs, KvExtent kv_extent,
                                 const AttentionLengths& lengths, const AttentionGpu& gpu) {
  if (kv_extent == KvExtent::unknown) return TileShapeClass::standard;
  const auto cost = [&](TileShapeClass form) {
    return total_cost(form, tiles_of(form, needs, kv_extent), needs.head_dim_v, kv_extent, lengths,
                      gpu);
  };
  TileShapeClass best = TileShapeClass::standard;
  for (const TileShapeClass form : {TileShapeClass::large_n, TileShapeClass::three_warpgroups})
    if (may_be(form, needs, tiles_of(form, needs, kv_extent), gpu) &&
        cost(form) < gpu.profile->attention.worthwhile * cost(best))
      best = form;
  return best;
}

}  // namespace tegula
