#pragma once
// Overlaps the tail of a tile in a persistent kernel with back-to-back GEMMs: its last GEMM1 and
// its epilogue run next to the first GEMM0 of the next tile.
#include <optional>
#include <vector>

#include "ir/clone_op.h"
#include "ir/passes/mma_loop/mma_loop.h"

namespace tegula::ir {

class EpilogueOverlap {
 public:
  /// `second` is the skewed MMA, `sum` the index of its accumulator among the loop's carries. None
  /// if the loop is not the tile's only one, may have no iteration, or ops after it cannot be
  /// delayed.
  static std::optional<EpilogueOverlap> of(MmaLoop& l, OpId second, std::size_t sum);

  /// Makes the tile loop carry the rest of a tile; in front of the first loads.
  void enter();
  /// State of the previous tile: whether there is one, and the operands of its last GEMM1. Without
  /// one, the MMA runs on zeros and its result is unused.
  Value exists() const { return exists_; }
  Value sum() const { return sum_; }
  Value mma1_a() const { return mma1_a_; }
  Value adds() const { return adds_; }
  RingPosition mma1_position() const { return at_; }
  /// The rest of the previous tile's work on its accumulator.
  void finish_previous_tile(Builder& b, Value accumulator);
  /// Ends the mainloop, which yields A of the last GEMM1 and whether that adds to the accumulator:
  /// the rest of the last tile comes after the tile loop.
  void leave(Value mma1_a, Value adds);
  /// Adds the tile loop's yields, after those of the rings.
  void close();

 private:
  EpilogueOverlap(MmaLoop& l, OpId second, std::size_t sum);

  bool collect();
  bool meets_others() const;
  bool is_of_tile(Value v) const;
  bool is_invariant(Value v) const;
  void add_outside(Value v);
  /// Adds a carry to the tile loop; the value it has after that loop.
  Value carried(Value init);
  Value behind_tiles(Value arg) const;
  Value again(Builder& b, Value v, ValueMap& map) const;
  void write(Builder& b, ValueMap map) const;

  MmaLoop& l_;
  Kernel& k_;
  OpId second_, tiles_;
  std::size_t c_;
  std::size_t own_results_;       ///< results of the loop before rings add theirs
  std::vector<OpId> rest_;        ///< ops after the loop that depend on its results
  std::vector<Value> from_tile_;  ///< values of the tile that these use
  std::vector<Value> yields_;     ///< additional yields of the tile loop
  ValueMap before_;               ///< maps values of this tile to those of the previous one
  Value exists_, sum_, mma1_a_, adds_;
  RingPosition at_;
};

}  // namespace tegula::ir
