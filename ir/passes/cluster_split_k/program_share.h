#pragma once
// What a program of a cluster computes behind sums of which it has a part only: as large a part,
// along the dimension that theirs has become, of every tile that meets them.
//
// Before:  r = load_view R, m, n; v = f(sums, cast r)          (128x256)
// After:   r = load_view R, m + rank * 32, n; v = f(part, cast r)   (32x256)
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/builder.h"

namespace tegula::ir {

/// First it is asked what can be cut, then parts are made; a value whose part cannot be made stays.
class ProgramShare {
 public:
  /// `sums` have parts already, each along its dimension.
  ProgramShare(Kernel& k, int parts, std::unordered_map<Value, int> sums)
      : k_(k), parts_(parts), sums_(std::move(sums)) {}

  // ---- asking
  /// The value is computed from sums.
  bool depends(Value v);
  /// The dimension of such a value that a sum's has become; none where parts of it need the others.
  std::optional<int> cut_dim(Value v);
  /// A program can compute its part along `dim`, or all of what has no such dimension.
  bool can_cut(Value v, int dim);
  /// Why the last answer was no.
  const std::string& why_not() const { return why_not_; }
  /// Along which dimensions of its tile a load would be cut; kWhole among them where it is needed
  /// whole, and empty where nothing asked for it.
  const std::set<int>& cuts_of(OpId load) { return cuts_[load]; }

  // ---- making
  /// Before anything is made, at the beginning of the body.
  void begin();
  Value rank() const { return rank_; }
  void set_sum(Value sum, Value part) { made_[sum][sums_.at(sum)] = part; }
  Value part(Value v, int dim);
  /// A box of so many elements along the dimension that is cut becomes the program's part of it.
  /// `first` is the place of its first offset among the operands.
  void move_box(OpId op, std::size_t first, int dim, std::int64_t extent);

 private:
  bool fail(std::string why);
  bool is_computed_here(OpId def) const;
  std::optional<int> operand_dim(OpId op, Value operand, int dim) const;
  std::optional<int> result_dim(OpId op, Value operand, int dim) const;
  Type part_type(Type t, int dim) const;
  Value rank_times(std::int64_t extent, DType dtype);
  void remake(OpId op, int dim);
  /// Of all that the value is computed from.
  void take_whole(Value v);

  Kernel& k_;
  int parts_;
  std::unordered_map<Value, int> sums_;
  std::unordered_map<Value, bool> depends_;
  std::unordered_map<Value, std::set<int>> can_;
  std::unordered_map<OpId, std::set<int>> cuts_;
  std::unordered_set<Value> whole_;
  std::string why_not_;
  std::unordered_map<Value, std::map<int, Value>> made_;
  std::map<std::pair<std::int64_t, DType>, Value> multiples_;
  Value rank_;
  Builder start_{k_};
};

}  // namespace tegula::ir
