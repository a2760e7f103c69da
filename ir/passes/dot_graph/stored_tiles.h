#pragma once
// Tiles that the threads of a loop store for the wgmmas of all warpgroups, and the barriers around
// them: one between the store of a tile and the first dot that reads it, one between the reads of
// an iteration and the stores of the next. Tiles that are defined before the loop are stored once.
#include <algorithm>
#include <vector>

#include "ir/passes/dot_graph/loop_order.h"
#include "ir/passes/mma_loop/mma_loop.h"

namespace tegula::ir {

class StoredTiles {
 public:
  StoredTiles(Kernel& k, const DotGraph& graph) : k_(k), graph_(graph) {}

  /// Allocates shared memory before all loops; `stages`: slots of the loop's rings.
  void allocate(MmaLoop& l, const LoopOrder& order, int stages);
  /// Stores the tiles that are defined before the loop. `has_barrier`: a barrier for the async
  /// proxy precedes the first dot in any case.
  void store_invariants(Builder& b, bool has_barrier);
  bool empty() const { return stored_.empty(); }
  /// The current slot of tiles with two slots, which the loop carries; null if no tile has two.
  Value turn;
  void next_turn(Builder& b);

  void begin_step();
  /// Records that all warps have synchronized after the wgmmas of the previous step.
  void met() { are_synchronized_ = true; }
  bool has(Value tile) const {
    return std::ranges::find(stored_, tile, &Tile::tile) != stored_.end();
  }
  /// Stores the value that was made for the tile, if the tile is one of the stored tiles.
  void store(Builder& b, Value tile, Value made);
  /// Returns the shared-memory tile, which wgmmas may read after this, and appends its slot to the
  /// operands.
  Value read(Builder& b, Value tile, std::vector<Value>& operands);

 private:
  struct Tile {
    Value tile, buffer;
    int slots = 1;
    bool is_invariant = false;
    bool is_stored = false, is_published = false;  ///< by the step
  };
  void add(Builder& b, OpId loop, Value tile, int usual);
  Value slot(Builder& b, const Tile& t) const { return t.slots == 2 ? turn : b.i32(0); }

  Kernel& k_;
  const DotGraph& graph_;
  std::vector<Tile> stored_;
  bool are_synchronized_ = false;  ///< the step has a barrier after all wgmmas of the previous step
};

}  // namespace tegula::ir
