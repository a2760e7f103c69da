#pragma once
// Multicast analysis: boxes of views that a loop loads for both of two neighbouring tiles.
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/builder.h"

namespace tegula::ir {

/// Analyses a loop of a kernel whose tile ids are `program_id` still, in front of the pass
/// `make_persistent`.
class MulticastLoads {
 public:
  MulticastLoads(const Kernel& k, OpId loop) : k_(k), body_(k[loop].regions[0]), loop_(loop) {}

  /// Whether the loop has the same trip count for all tiles, or may have that of its neighbour
  /// where it has none of its own (attribute `predicated`).
  bool have_equal_trip_counts();
  /// Gives a loop that has trips for this tile or for the tile `other` those trips, so that both
  /// have equally many; computed at `b`, in front of the loop.
  void equalize_trip_counts(Builder& b, Value other);
  /// Whether the load's offsets are pure scalars of the tile id and of values that all tiles share,
  /// and equal for the first two tiles of a large problem.
  bool may_multicast(OpId load);
  /// Whether both tiles' boxes are the same in every iteration (i1), given may_multicast: computed
  /// at `b`, in front of the loop, for this tile and for the tile `other`.
  Value is_same(Builder& b, OpId load, Value other);

 private:
  /// Unknown: it may differ between CTAs for another reason than their tiles.
  enum class VariesWith : std::uint8_t { Nothing, Tile, Unknown };
  VariesWith varies_with(Value v);
  VariesWith computed_from(Value v);
  bool is_tile(Value v) const;
  /// Offsets that are computed in front of the loop from the tile id.
  std::vector<Value> of_tile(OpId load);
  void collect(Value v, std::vector<Value>& found, std::unordered_set<Value>& visited);
  bool is_inside(Value v) const;
  /// The select that gives a predicated loop its end.
  OpId bound() const;
  /// The value `v`, which is computed from the tile, computed again from `other`.
  Value clone_for(Builder& b, Value v, Value other, std::unordered_map<Value, Value>& map);

  const Kernel& k_;
  RegionId body_;
  OpId loop_;
  std::unordered_map<Value, VariesWith> known_;
};

}  // namespace tegula::ir
