#pragma once
// Which elements of a tile loads leave absent, as intervals of each dimension. Unlike Absence, it
// adds no ops, and follows only what the checks of absent elements need.
#include <unordered_map>
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// Element i is present if 0 <= offset + i < the view's extent along `axis`.
struct LoadedInterval {
  OpId load;
  Value view;
  std::int64_t axis = 0;
  Value offset;
  bool is_kept = false;  ///< elements outside have a value: fill_absent, or a loop that keeps them
};

/// The elements that are present along one dimension.
struct PresentLine {
  std::vector<LoadedInterval> all;
  bool is_data = false;  ///< the elements differ along the dimension because a load reads them
};

/// The elements of a tile that are present: a line for each dimension, and the conditions of the
/// whole tile.
struct PresentLines {
  bool is_known = false;
  std::vector<PresentLine> dims;
  PresentLine whole;
};

/// Longer chains of ops are not followed.
inline constexpr int kMaxTileChain = 1000;

/// Returns true for a tile whose elements are all the same number.
bool is_fill_tile(const Kernel& k, Value v);

/// Returns the dimension of the result of an expand_dims, permute, reshape or broadcast that
/// dimension `dim` of the operand becomes; -1 if it is repeated, divided or merged.
int dim_after(const Kernel& k, const OpData& op, int dim);

class TilePresence {
 public:
  explicit TilePresence(const Kernel& k) : k_(k) {}

  /// Returns the presence of the value; not known for results of loops and branches, selects and
  /// crops.
  const PresentLines& of(Value v);
  /// Returns that of the rows of a dot's first and the columns of its second operand, without the
  /// accumulator.
  PresentLines factors(OpId dot);
  /// Returns the presence of a value without absent elements.
  PresentLines all_present(Value v) const;
  /// Returns true if no element of the value is absent.
  bool is_whole(Value v);

 private:
  PresentLines find(Value v);
  PresentLines loaded(OpId op);
  PresentLines filled(OpId op);
  PresentLines merged(OpId op);
  PresentLines selected(OpId op);
  PresentLines moved(OpId op);
  PresentLines reduced(OpId op);
  PresentLines product(OpId op);

  const Kernel& k_;
  std::unordered_map<Value, PresentLines> known_;
  int depth_ = 0;
};

/// Adds the conditions of another line.
void add_line(PresentLine& line, const PresentLine& more);

/// Returns true if `line` has all conditions of `other`.
bool covers(const Kernel& k, const PresentLine& line, const PresentLine& other);

}  // namespace tegula::ir
