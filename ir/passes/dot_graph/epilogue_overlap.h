#pragma once
// Overlaps the end of a tile in a persistent kernel with the next tile: the late stage of its last
// iteration and its epilogue stand beside and behind the first step of the next tile.
#include <optional>
#include <span>
#include <vector>

#include "ir/clone_op.h"
#include "ir/loop.h"
#include "ir/passes/mma_loop/mma_loop.h"

namespace tegula::ir {

class EpilogueOverlap {
 public:
  /// None if the loop is not the tile's only one, may have no iteration, or ops after it cannot be
  /// delayed.
  static std::optional<EpilogueOverlap> of(MmaLoop& l);

  /// Makes the tile loop carry the state of the mainloop that ended, of these types; in front of
  /// the first loads. The position of `late`, the ring that the late stage reads, ends there, too.
  void enter(std::span<const Type> state, OperandPipeline& late);
  /// The tile before: whether there is one, its state and position. Without one, the late stage
  /// runs on zeros and its results are unused.
  Value exists() const { return exists_; }
  std::span<const Value> state() const { return state_; }
  RingPosition position() const { return at_; }
  /// The rest of the work of the tile before, on the results of its loop.
  void finish_last_tile(Builder& b, std::span<const Value> results) const;
  /// Ends the mainloop in this state. Gives the place, in a branch behind the tile loop, for the
  /// late stage of the very last tile.
  OpId leave(std::vector<Value> state);
  std::vector<Value> very_last_state() const;
  RingPosition very_last_position() const {
    return {behind_tiles(at_.slot), behind_tiles(at_.phase)};
  }
  /// The rest of the work of that tile; takes away what stood behind the loop.
  void finish_very_last_tile(Builder& b, std::span<const Value> results);
  /// Adds the tile loop's yields, after those of the rings.
  void close();

 private:
  explicit EpilogueOverlap(MmaLoop& l);

  bool collect();
  bool meets_others() const;
  bool is_of_tile(Value v) const { return home_of(k_, v) == k_[loop_].parent; }
  bool is_invariant(Value v) const;
  void add_outside(Value v);
  /// Adds a carry of this type to the tile loop, which begins as zeros.
  Value carried(Type type);
  Value behind_tiles(Value arg) const;
  void write(Builder& b, std::span<const Value> results, ValueMap map) const;

  MmaLoop& l_;
  Kernel& k_;
  OpId loop_, tiles_;
  std::vector<OpId> rest_;        ///< ops after the loop that depend on its results
  std::vector<Value> from_tile_;  ///< values of the tile that these use
  std::vector<Value> yields_;     ///< additional yields of the tile loop
  ValueMap before_;               ///< maps values of this tile to those of the tile before
  Value exists_;
  std::vector<Value> state_;
  RingPosition at_;
};

}  // namespace tegula::ir
