#pragma once
// Overlaps the end of a tile in a persistent kernel with the next tile: the late stage of its last
// iteration runs in the first step of the next tile, and its epilogue after that step.
#include <optional>
#include <span>
#include <vector>

#include "ir/clone_op.h"
#include "ir/loop.h"
#include "ir/passes/mma_loop/mma_loop.h"

namespace tegula::ir {

class EpilogueOverlap {
 public:
  /// Returns nothing if the loop is not the only one of the tile, may have no iteration, or is
  /// followed by ops that cannot be delayed.
  static std::optional<EpilogueOverlap> of(MmaLoop& l);

  /// Makes the tile loop carry the state of the mainloop that ended, which has these types. Must be
  /// called before the first loads. The position of `late`, the ring that the late stage reads,
  /// moves past the slot that the previous tile still reads.
  void enter(std::span<const Type> state, OperandPipeline& late);
  /// The previous tile: whether there is one, its state and its position. Without one, the late
  /// stage runs on zeros and its results are unused.
  Value exists() const { return exists_; }
  std::span<const Value> state() const { return state_; }
  RingPosition position() const { return at_; }
  /// Writes the remaining ops of the previous tile, on the results of its loop.
  void finish_last_tile(Builder& b, std::span<const Value> results) const;
  /// Ends the mainloop in this state. Returns the insertion point, in a branch after the tile loop,
  /// for the late stage of the very last tile.
  OpId leave(std::vector<Value> state);
  std::vector<Value> very_last_state() const;
  RingPosition very_last_position() const {
    return {after_tiles(at_.slot), after_tiles(at_.phase)};
  }
  /// Writes the remaining ops of that tile, and erases the original ops after the loop.
  void finish_very_last_tile(Builder& b, std::span<const Value> results);
  /// Adds the tile loop's yields, after those of the rings.
  void close();

 private:
  explicit EpilogueOverlap(MmaLoop& l);

  bool collect();
  bool conflicts_with_others() const;
  bool is_of_tile(Value v) const { return home_of(k_, v) == k_[loop_].parent; }
  bool is_invariant(Value v) const;
  void add_outside(Value v);
  /// Adds a carry of this type to the tile loop, with zeros as initial value.
  Value carried(Type type);
  Value after_tiles(Value arg) const;
  void write(Builder& b, std::span<const Value> results, ValueMap map) const;

  MmaLoop& l_;
  Kernel& k_;
  OpId loop_, tiles_;
  std::vector<OpId> rest_;        ///< ops after the loop that depend on its results
  std::vector<Value> from_tile_;  ///< values of the tile that these use
  std::vector<Value> yields_;     ///< additional yields of the tile loop
  ValueMap before_;               ///< maps values of this tile to those of the previous one
  Value exists_;
  std::vector<Value> state_;
  RingPosition at_;
};

}  // namespace tegula::ir
