#pragma once
// Checks the tensors of an attention call and prepares the kernel's views of them.
#include <cstdint>
#include <limits>
#include <optional>

#include "tegula/kernels/attention.h"

namespace tegula::kernels {

/// Arguments of the kernel: views of rank 4, lse and row_max of rank 3.
struct AttentionCall {
  Tensor Q, K, V, O;
  AttentionExtras extras;
  CuSeqlens lengths;  ///< undefined tensors: one sequence per batch entry
  bool pack_gqa = false;
  std::int32_t seqlen_q = 0;  ///< queries per packed head, or of the longest sequence
  /// K and V are pages [pages, heads, rows, dim]; `lengths` has offsets of queries and, undefined,
  /// those of keys.
  bool is_paged = false;
  std::int64_t max_seqlen_kv = 0;  ///< rows per request that a paged cache has room for
  bool is_scheduled = false;       ///< has a work list
  bool has_table = false;          ///< pages are named by a table; else a request has one page
  /// Not 0 if the call is one of two of a mixed step: with `pack_gqa`, it processes the requests of
  /// at most so many queries, else the others.
  int few_queries = 0;

  /// Returns true if rows are pairs of a query of a request, or of a packed sequence, and a head of
  /// a group: Q is [queries, kv heads, heads per kv head, dim].
  bool packs_queries() const { return pack_gqa && lengths.q.defined(); }
  /// Returns true if the call processes the requests with few queries of a mixed step.
  bool is_of_few() const { return pack_gqa && few_queries > 0; }
  /// Returns a bound of the queries of the requests that a work list of the call contains.
  int max_listed_queries() const {
    return few_queries > 0 ? few_queries : std::numeric_limits<int>::max();
  }
  /// Returns a bound of the number of rows of a head of O; of packed heads, those of one request.
  std::int64_t rows() const { return packs_queries() ? Q.size(2) * seqlen_q : Q.size(2); }
  /// Returns a bound of the number of keys per sequence.
  std::int64_t seqlen_kv() const { return is_paged ? max_seqlen_kv : K.size(2); }
};

/// Largest number of rows in N of the products of a tile (AttentionHeuristics::rows_in_n).
inline constexpr int kMaxRowsInN = 32;

/// Checks tensors [batch, heads, length, dim] and returns the call.
AttentionCall dense_call(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O,
                         const AttentionExtras& extras);
/// Checks tensors [total length, heads, dim] and returns the call.
AttentionCall varlen_call(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O,
                          const CuSeqlens& lengths, const AttentionExtras& extras);

/// Checks the bounds of packed sequences. Returns that of the queries of one sequence.
std::int64_t check_sequences(std::int64_t sequences, std::int64_t heads, std::int64_t max_seqlen_q,
                             std::int64_t total);

/// Checks the tensors of a paged call. The heads of a group are packed as rows of one head if the
/// caller requests it. By default, they are packed if requests have at most one query, or if all
/// rows of a request fit in a tile of kSmallQBlock rows. Only rows of one query are packed if head
/// dims are large (can_gather_queries).
AttentionCall paged_call(const Tensor& Q, const KvCache& cache, const Tensor& O,
                         const KvBatch& batch, const AttentionExtras& extras,
                         std::optional<bool> pack_gqa);

/// Returns pages [pages, rows, heads, dim] as the kernel's [pages, heads, rows, dim].
Tensor as_pages(const Tensor& t);
/// Returns a view of [rows, heads, ..] as [rows, kv heads, heads per group, ..].
Tensor as_groups(const Tensor& t, std::int64_t kv_heads);

/// Returns a view of [total, heads, ..] as a batch of one entry: [1, heads, total, ..].
Tensor as_batch(const Tensor& t);
/// Returns a view of [batch, heads, length, ..] as [batch, kv_heads, group * length, ..], or
/// nothing if the rows of a group's heads are not evenly spaced.
std::optional<Tensor> grouped(const Tensor& t, std::int64_t kv_heads);

/// Returns the call of packed sequences with the heads of each group as rows, or unchanged.
/// `wanted` is the caller's choice; by default, heads are packed if sequences have at most one
/// query, if their rows fit in N of the products, or if several heads share keys and their rows fit
/// in a tile of kSmallQBlock rows. Large head dims as in paged_call.
AttentionCall with_packed_queries(AttentionCall call, std::optional<bool> wanted);

/// Returns the value of a mask. Rejects floats: such a mask is probably meant to be added to
/// scores, as 0 and -inf, whose truth values are inverted.
Tile checked_mask(const Tile& mask);

/// Throws if there are more queries than keys.
void require_keys_for_queries(const Tensor& Q, const Tensor& K);

/// Returns the call with the heads of each group packed as rows of one head, or unchanged if their
/// rows are not evenly spaced in memory, or if there are no groups. `wanted` is the caller's
/// choice; by default, heads are packed if there are few queries.
AttentionCall with_packed_gqa(AttentionCall call, std::optional<bool> wanted);

}  // namespace tegula::kernels
