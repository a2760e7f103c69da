#pragma once
// Rows of a query tile: their positions in the tensors, and the heads and positions that the mask
// and the score function receive.
#include <optional>
#include <utility>

#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

/// The queries of a request whose rows are pairs of a query and a head of a group: row r is head r
/// % group of query r / group.
struct QueryHeadRows {
  Tile first_query, queries, group;
  bool is_one_query;  ///< requests have at most one: rows of a tile are consecutive in memory

  /// Returns the number of rows.
  Tile count() const { return queries * group; }
};

/// Returns true if a tile of 64 rows of several queries, which threads load one by one, fits in
/// registers next to its accumulator. Rows of one query are loaded as a box to shared memory.
bool can_gather_queries(std::int64_t dim, std::int64_t head_dim_v);

/// Subscripts of rows along the dimensions of entries and of positions of a tensor.
struct RowSubscripts {
  Subscript entry, position;
};

/// Part of the tensors that a program works on: a batch entry, or one of several packed sequences
/// in a single entry.
struct SequenceRange {
  Index entry;
  Tile seqlen_kv;
  std::optional<Tile> q_first = {}, q_end = {}, kv_first = {};  ///< bounds of one packed sequence
  /// Absent unless rows are pairs of a query and a head; entries are then queries, and positions
  /// are heads of the group. `q_first` and `q_end` are bounds of the rows.
  std::optional<QueryHeadRows> by_head = {};

  /// Returns sequence b, delimited by entries b and b + 1 of the tables.
  static SequenceRange packed(const In<i32, 1>& cu_q, const In<i32, 1>& cu_kv, const Tile& b);
  /// Returns request b of a step: its queries are delimited by entries b and b + 1 of the offsets.
  static SequenceRange request(const In<i32, 1>& q_offsets, const Tile& seqlen_kv, const Tile& b);

  /// Returns the same request, without queries if it has more than `few`, or, unless `has_few`, if
  /// it has at most `few`.
  SequenceRange with_few_queries(int few, bool has_few) const;
  /// Returns the same request or sequence, of at most `max_seqlen_q` queries, with the `group`
  /// heads of each query as its rows.
  SequenceRange with_heads_as_rows(const Tile& group, const Tile& max_seqlen_q,
                                   bool is_one_query) const;

  /// Returns its number of queries; `dense` if it is the only sequence of its entry.
  Tile seqlen_q(const Tile& dense) const {
    return by_head ? by_head->queries : q_first ? *q_end - *q_first : dense;
  }
  /// Returns the subscripts of the rows of a tile in Q and in results. Unless they are a box, rows
  /// beyond the end of `by_head` are in no tensor.
  RowSubscripts rows(const Index& m) const;
  /// Return positions of the sequence as rows of the tensors.
  Index queries(const Index& m) const { return q_first ? m.shifted(*q_first) : m; }
  Index keys(const Index& n) const { return kv_first ? n.shifted(*kv_first) : n; }
  /// Returns whether the tile has queries, or nothing if it always does (see VarlenTileScheduler).
  std::optional<Tile> has_queries(const Index& m) const;
  /// Returns results without the rows beyond the end of the sequence, which belong to the next one
  /// or have no subscripts.
  Tile mask_tail(const Tile& results, const Index& m) const;
  /// Returns positions of keys as rows that end with the sequence.
  Index own_keys(const Index& n) const {
    return kv_first ? keys(n).until(*kv_first + seqlen_kv) : n;
  }
};

/// Largest number of sequences in one call.
inline constexpr int kMaxSequences = 1 << 16;

/// Tiles of `rows` queries of packed sequences. The number of tiles exceeds the minimum by little,
/// even if one sequence is much longer than the others.
class VarlenTileScheduler {
 public:
  VarlenTileScheduler(const In<i32, 1>& cu_q, int rows) : cu_q_(cu_q), rows_(rows) {}

  /// Returns the number of tiles of `total` queries, including empty ones between sequences.
  Tile count(const Tile& total) const { return total / rows_ + sequences(); }
  /// Returns the sequence of tile `number`, and the queries of the tile, of which there may be
  /// none. Requires at least one sequence.
  std::pair<Index, Index> at(const Tile& number) const;
  /// Returns the first row of a sequence in a tensor that has the rows of each tile, whether they
  /// exist or not, at `rows` * number.
  Tile first_row(const Tile& sequence) const {
    return first_of(sequence, fill_absent(cu_q_(sequence), 0)) * rows_;
  }

 private:
  Tile sequences() const { return cu_q_.dim(0) - 1; }
  /// Returns the number of a sequence's first tile from its first query. It increases by at least
  /// the number of the sequence's tiles, because all of them but the last are full.
  Tile first_of(const Tile& sequence, const Tile& begin) const { return begin / rows_ + sequence; }

  const In<i32, 1>& cu_q_;
  int rows_;
};

/// Heads and positions of the rows of a tile, and bounds of the positions.
struct QueryRows {
  Tile heads, positions;  ///< [rows, 1], or a scalar if all rows share one
  Tile first, last;       ///< of the queries that exist
  Tile head_of_row;       ///< `heads` as [rows], or a scalar

  /// Returns the positions of one head.
  static QueryRows of_head(const Index& h, const Index& m, const Tile& seqlen_q);
  /// Returns the same rows with positions shifted by `by`.
  QueryRows shifted(const Tile& by) const;
  /// Returns the same rows with heads and positions as [1, rows], for scores with keys in M.
  QueryRows with_keys_in_m() const;
  /// Returns the positions of the heads of a group, head by head; `rows` is the number per group.
  static QueryRows of_group(const Index& group, const Index& m, const Tile& rows,
                            const Tile& seqlen_q);
  /// Returns the positions of the heads of a group, query by query.
  static QueryRows of_queries(const Index& group, const Index& m, const QueryHeadRows& rows);
};

}  // namespace tegula::kernels
