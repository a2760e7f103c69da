#pragma once
// Computes only this CTA's slice of everything that depends on a cluster split-K accumulator, along
// the dimension in which the accumulator was scattered.
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

/// First determines which values can be split, then creates the slices; a value that cannot be
/// split stays.
class ClusterSlicer {
 public:
  /// `accumulators` are scattered already, each along its dimension.
  ClusterSlicer(Kernel& k, int parts, std::unordered_map<Value, int> accumulators)
      : k_(k), parts_(parts), accumulators_(std::move(accumulators)) {}

  // ---- asking
  /// Whether the value is computed from the accumulators.
  bool depends(Value v);
  /// The dimension of such a value in which an accumulator is scattered; none if its slices need
  /// each other.
  std::optional<int> cut_dim(Value v);
  /// Whether a CTA can compute its slice along `dim`, or all of a value without that dimension.
  bool can_cut(Value v, int dim);
  /// The reason of the last negative answer.
  const std::string& why_not() const { return why_not_; }
  /// Dimensions along which a load's tile would be split; kWhole among them if it is needed whole,
  /// and empty if nothing asked for it.
  const std::set<int>& cuts_of(OpId load) { return cuts_[load]; }

  // ---- making
  /// Prepares the rewrite, at the beginning of the body.
  void begin();
  Value rank() const { return rank_; }
  void set_slice(Value accumulator, Value slice) {
    made_[accumulator][accumulators_.at(accumulator)] = slice;
  }
  Value part(Value v, int dim);
  Type part_type(Type t, int dim) const;
  /// Moves a box of `extent` elements along the split dimension to the CTA's slice. `first` is the
  /// index of its first offset among the operands.
  void move_box(OpId op, std::size_t first, int dim, std::int64_t extent);

 private:
  bool fail(std::string why);
  bool is_computed_here(OpId def) const;
  std::optional<int> operand_dim(OpId op, Value operand, int dim) const;
  std::optional<int> result_dim(OpId op, Value operand, int dim) const;
  Value rank_times(std::int64_t extent, DType dtype);
  void remake(OpId op, int dim);
  /// Uses all operands of the value whole.
  void take_whole(Value v);

  Kernel& k_;
  int parts_;
  std::unordered_map<Value, int> accumulators_;
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
