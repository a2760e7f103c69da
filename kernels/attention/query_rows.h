#pragma once
// Rows of a query tile: their position in the tensors, and the heads and positions that the mask
// and the score function see.
#include <optional>
#include <utility>

#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"

namespace tegula {

/// The part of the tensors that a program works on: an entry of the batch, or one of the
/// consecutive sequences in the only entry.
struct SequenceRange {
  Index entry;
  Tile seqlen_kv;
  std::optional<Tile> q_first = {}, q_end = {},
                      kv_first = {};  ///< bounds of one sequence among others

  /// Sequence b, between entries b and b + 1 of the tables.
  static SequenceRange packed(const In<i32, 1>& cu_q, const In<i32, 1>& cu_kv, const Tile& b);

  /// Its queries: `dense` where it has the only sequence of its entry.
  Tile seqlen_q(const Tile& dense) const { return q_first ? *q_end - *q_first : dense; }
  /// Positions of the sequence as rows of the tensors.
  Index queries(const Index& m) const { return q_first ? m.shifted(*q_first) : m; }
  Index keys(const Index& n) const { return kv_first ? n.shifted(*kv_first) : n; }
  /// Whether the tile has queries, where it may have none (VarlenTileScheduler).
  std::optional<Tile> has_queries(const Index& m) const;
  /// Results with the rows beyond the sequence's end masked out: they belong to the next sequence.
  Tile mask_tail(const Tile& results, const Index& m) const;
};

/// In one call.
inline constexpr int kMaxSequences = 1 << 16;

/// Tiles of `rows` queries of consecutive sequences: few more than there are, however much longer
/// the longest sequence is than the others.
class VarlenTileScheduler {
 public:
  VarlenTileScheduler(const In<i32, 1>& cu_q, int rows) : cu_q_(cu_q), rows_(rows) {}

  /// Number of tiles of `total` queries, those between sequences included.
  Tile count(const Tile& total) const { return total / rows_ + sequences(); }
  /// The sequence of tile `number`, and the tile's queries, of which it may have none. There is a
  /// sequence.
  std::pair<Index, Index> at(const Tile& number) const;

 private:
  Tile sequences() const { return cu_q_.dim(0) - 1; }
  /// Number of a sequence's first tile, given where it begins. The next sequence's is at least as
  /// many further on as this one has tiles: each but the last is full.
  Tile first_of(const Tile& sequence, const Tile& begin) const { return begin / rows_ + sequence; }

  const In<i32, 1>& cu_q_;
  int rows_;
};

/// Heads and positions of the rows of a tile, and bounds of the positions.
struct QueryRows {
  Tile heads, positions;  ///< [rows, 1], or a scalar where all have one
  Tile first, last;
  Tile head_of_row;  ///< `heads` as [rows], or a scalar

  /// Positions of one head.
  static QueryRows of_head(const Index& h, const Index& m);
  /// The same rows, `by` positions further on.
  QueryRows shifted(const Tile& by) const;
  /// All positions of a group's first head, then those of its next (`rows` in all).
  static QueryRows of_group(const Index& group, const Index& m, const Tile& rows,
                            const Tile& seqlen_q);
};

}  // namespace tegula
