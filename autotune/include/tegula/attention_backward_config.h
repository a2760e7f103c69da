#pragma once
#include <cstdint>

#include "tegula/attention_config.h"

/// Tiles of attention's backward pass.
namespace tegula {

/// Properties of a launch of attention's main backward kernel that determine the choice of its
/// tiles. Rows are keys, except for `of_queries`.
struct AttentionBackwardProblem {
  std::int64_t queries = 0, keys = 0;  ///< over all sequences
  std::int64_t matrices = 1;           ///< query heads, summed over all batch entries
  std::int64_t sequences = 1;          ///< sequences in one tensor
  int columns = 0, columns_v = 0;      ///< padded head dims of K and V
  DType operands = DType::bf16;
  KvExtent kv_extent = KvExtent::full;
  bool is_varlen = false, is_grouped = false;  ///< packed sequences; query heads share keys
  bool has_lists = false;                      ///< the caller's, with blocks of a fixed size
  bool has_score = false;
  bool sums_captures = false;  ///< adds gradients of captures to memory
  bool adds_queries = false;   ///< adds the gradient of Q to memory
  bool has_both = false;       ///< computes the gradients of K and V
  /// Computes the gradient of Q without additions to memory: rows of tiles are queries.
  bool of_queries = false;

  template <class Self, class Visit>
  static void each_field(Self& p, const Visit& visit) {
    visit("queries", p.queries);
    visit("keys", p.keys);
    visit("matrices", p.matrices);
    visit("sequences", p.sequences);
    visit("columns", p.columns);
    visit("columns_v", p.columns_v);
    visit("operands", p.operands);
    visit("kv_extent", p.kv_extent);
    visit("is_varlen", p.is_varlen);
    visit("is_grouped", p.is_grouped);
    visit("has_lists", p.has_lists);
    visit("has_score", p.has_score);
    visit("sums_captures", p.sums_captures);
    visit("adds_queries", p.adds_queries);
    visit("has_both", p.has_both);
    visit("of_queries", p.of_queries);
  }
  friend bool operator==(const AttentionBackwardProblem&,
                         const AttentionBackwardProblem&) = default;
};

/// Queries and keys are exchanged if rows of tiles are queries.
struct AttentionBackwardConfig {
  int block_kv = 128;  ///< keys of a program
  int block_q = 64;    ///< queries of an iteration
  int stages = 2;      ///< slots of the rings
  int launches = 1;    ///< 2: the gradient of V, then those of K and Q, with half of the registers
  /// The tiles of the same keys of all heads of a batch entry run before those of the next keys:
  /// the longest ones first, under a causal mask.
  bool heads_last = false;
  int store_columns = 0;  ///< columns of gradients that are stored at a time; 0: all

  template <class Self, class Visit>
  static void each_field(Self& c, const Visit& visit) {
    visit("block_kv", c.block_kv);
    visit("block_q", c.block_q);
    visit("stages", c.stages);
    visit("launches", c.launches);
    visit("heads_last", c.heads_last);
    visit("store_columns", c.store_columns);
  }
  friend bool operator==(const AttentionBackwardConfig&, const AttentionBackwardConfig&) = default;
};

/// Returns the usual configuration, for which registers and shared memory have room.
AttentionBackwardConfig choose_attention_backward(const AttentionBackwardProblem& problem,
                                                  const DeviceProfile& gpu);
/// Returns the decision of a call on a device: a tuned winner for this problem or a near one, else
/// the usual configuration.
AttentionBackwardConfig choose_attention_backward(const AttentionBackwardProblem& problem,
                                                  Device device);

}  // namespace tegula
