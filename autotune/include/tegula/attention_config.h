#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <string_view>

#include "tegula/device_profile.h"
#include "tegula/dtype.h"

/// Tile shapes of attention's forward pass, and the split of a tile's keys over CTAs.
namespace tegula {

/// Queries and keys that a CTA processes at a time.
struct AttentionTileShape {
  int block_q = 128, block_kv = 128;
  friend bool operator==(const AttentionTileShape&, const AttentionTileShape&) = default;
};

/// Keys that a query tile visits, as far as they are known before the kernel is traced.
enum class KvExtent : std::uint8_t {
  unknown,
  full,
  causal,  ///< from the first key to a limit that rises with the row
};
constexpr auto enumerator_names(KvExtent) {
  return std::array<std::string_view, 3>{"unknown", "full", "causal"};
}

/// A choice that the caller makes or leaves open.
enum class AskedFor : std::uint8_t { open, no, yes };
constexpr auto enumerator_names(AskedFor) {
  return std::array<std::string_view, 3>{"open", "no", "yes"};
}

/// Properties of an attention call that determine the choice of its tiles.
struct AttentionProblem {
  std::int64_t queries = 0, keys = 0;  ///< rows and columns of scores, over all sequences
  std::int64_t first_query = 0;        ///< position of the first query among the keys
  std::int64_t matrices = 1;           ///< heads, summed over all batch entries
  std::int64_t sequences = 1;          ///< sequences in one tensor
  int head_dim = 0, head_dim_v = 0;
  DType operands = DType::bf16;
  KvExtent kv_extent = KvExtent::full;
  bool is_varlen = false;
  bool pack_gqa = false;           ///< rows are those of all heads of a GQA group
  bool splits_kv = false;          ///< CTAs share a tile's keys
  bool is_non_contiguous = false;  ///< kv blocks of a tile are not consecutive
  bool is_data_dependent = false;  ///< tensors or the caller determine the keys of each row
  /// @name Properties of the score function, from its trace (ScoreTraits)
  /// @{
  bool has_score = false, reads_kv_index = false, has_per_element_state = false,
       is_toeplitz = false, needs_row_scan = false;
  int tma_bytes_per_element = 0;  ///< 0 if TMA loads no part of the score
  /// @}
  AskedFor speculation = AskedFor::no;    ///< the caller's choice, if the call supports it
  bool speculation_pays = false;          ///< according to the work, mask, score and type
  AskedFor longest_first = AskedFor::no;  ///< the caller's choice, if the call supports it

  template <class Self, class Visit>
  static void each_field(Self& p, const Visit& visit) {
    visit("queries", p.queries);
    visit("keys", p.keys);
    visit("first_query", p.first_query);
    visit("matrices", p.matrices);
    visit("sequences", p.sequences);
    visit("head_dim", p.head_dim);
    visit("head_dim_v", p.head_dim_v);
    visit("operands", p.operands);
    visit("kv_extent", p.kv_extent);
    visit("is_varlen", p.is_varlen);
    visit("pack_gqa", p.pack_gqa);
    visit("splits_kv", p.splits_kv);
    visit("is_non_contiguous", p.is_non_contiguous);
    visit("is_data_dependent", p.is_data_dependent);
    visit("has_score", p.has_score);
    visit("reads_kv_index", p.reads_kv_index);
    visit("has_per_element_state", p.has_per_element_state);
    visit("is_toeplitz", p.is_toeplitz);
    visit("needs_row_scan", p.needs_row_scan);
    visit("tma_bytes_per_element", p.tma_bytes_per_element);
    visit("speculation", p.speculation);
    visit("speculation_pays", p.speculation_pays);
    visit("longest_first", p.longest_first);
  }
  friend bool operator==(const AttentionProblem&, const AttentionProblem&) = default;
};

struct AttentionConfig {
  int block_q = 128, block_kv = 128;
  /// Scores are relative to the maximum of the first block, and a recompute kernel follows
  /// (Rescaling::never).
  bool is_speculative = false;
  /// The query tiles of a derived list that visit the most blocks run first.
  bool longest_first = false;

  AttentionTileShape tiles() const { return {block_q, block_kv}; }

  template <class Self, class Visit>
  static void each_field(Self& c, const Visit& visit) {
    visit("block_q", c.block_q);
    visit("block_kv", c.block_kv);
    visit("is_speculative", c.is_speculative);
    visit("longest_first", c.longest_first);
  }
  friend bool operator==(const AttentionConfig&, const AttentionConfig&) = default;
};

/// A call with few rows and many keys, which several CTAs may share.
struct SplitKvProblem {
  std::int64_t tiles = 0;  ///< one per head of a batch entry
  std::int64_t keys = 0;
  int key_bytes = 0;  ///< bytes of one key and its value

  template <class Self, class Visit>
  static void each_field(Self& p, const Visit& visit) {
    visit("tiles", p.tiles);
    visit("keys", p.keys);
    visit("key_bytes", p.key_bytes);
  }
  friend bool operator==(const SplitKvProblem&, const SplitKvProblem&) = default;
};

/// CTAs that share a tile: `clusters` clusters of `cluster_ctas` CTAs each.
struct SplitKv {
  int cluster_ctas = 1;
  std::int64_t clusters = 1;

  std::int64_t all() const { return cluster_ctas * clusters; }

  template <class Self, class Visit>
  static void each_field(Self& c, const Visit& visit) {
    visit("cluster_ctas", c.cluster_ctas);
    visit("clusters", c.clusters);
  }
  friend bool operator==(const SplitKv&, const SplitKv&) = default;
};

/// Returns the configuration with the shortest estimated time. The estimate includes unused keys,
/// rows beyond the last query and SMs without a tile.
AttentionConfig choose_attention(const AttentionProblem& problem, const DeviceProfile& gpu);
/// Returns the decision of a call on a device: a tuned winner for this problem or a near one, else
/// the model's choice.
AttentionConfig choose_attention(const AttentionProblem& problem, Device device);

/// Returns the fastest split with co-resident CTAs and enough keys per CTA, by model and winners.
SplitKv choose_split_kv(const SplitKvProblem& problem, const DeviceProfile& gpu);
SplitKv choose_split_kv(const SplitKvProblem& problem, Device device);
/// Returns a split over `ctas` CTAs: in the largest clusters that are co-resident for all tiles,
/// else in one cluster.
SplitKv given_split_kv(int ctas, std::int64_t tiles, const DeviceProfile& gpu);

}  // namespace tegula
