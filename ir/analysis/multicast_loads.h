#pragma once
// Finds boxes of views that a loop loads for both of two neighbouring tiles.
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/builder.h"

namespace tegula::ir {

/// Analyzes a loop of a kernel whose tile ids are still `program_id`, before the pass
/// `make_persistent`.
class MulticastLoads {
 public:
  MulticastLoads(const Kernel& k, OpId loop) : k_(k), body_(k[loop].regions[0]), loop_(loop) {}

  /// Returns true if the loop has the same trip count for all tiles, or may run its neighbour's
  /// iterations when its own trip count is 0 (attribute `predicated`).
  bool have_equal_trip_counts();
  /// Makes the loop run if it has iterations for this tile or for the tile `other`, so that both
  /// have the same trip count. The new bound is computed at `b`, before the loop.
  void equalize_trip_counts(Builder& b, Value other);
  /// Returns true if the load's offsets are pure scalars of the tile id and of values that all
  /// tiles share, and are equal for the first two tiles of a large problem.
  bool may_multicast(OpId load);
  /// Returns an i1 that is true if the boxes of this tile and of the tile `other` are the same in
  /// every iteration. Requires may_multicast. The value is computed at `b`, before the loop.
  Value is_same(Builder& b, OpId load, Value other);

 private:
  /// Unknown: the value may differ between CTAs for another reason than the tile.
  enum class VariesWith : std::uint8_t { Nothing, Tile, Unknown };
  VariesWith varies_with(Value v);
  VariesWith computed_from(Value v);
  bool is_tile(Value v) const;
  /// Returns the offsets, or their parts, that are computed from the tile id before the loop.
  std::vector<Value> of_tile(OpId load);
  void collect(Value v, std::vector<Value>& found, std::unordered_set<Value>& visited);
  bool is_inside(Value v) const;
  /// Returns the select that computes the end of a predicated loop, if any.
  OpId bound() const;
  /// Recomputes `v`, which depends on the tile id, for the tile `other`.
  Value clone_for(Builder& b, Value v, Value other, std::unordered_map<Value, Value>& map);

  const Kernel& k_;
  RegionId body_;
  OpId loop_;
  std::unordered_map<Value, VariesWith> known_;
};

}  // namespace tegula::ir
