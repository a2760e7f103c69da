#pragma once
// Which elements of each tile may be absent, as bounds per dimension. Reads only; needs
// prove_bounds' attributes.
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// Element i along `dim` is present only if 0 <= offset + i < limit; where a broadcast repeats the
/// one element there was, each only if 0 <= offset < limit. dim -1: the whole tile only if 0 <=
/// offset < limit. A fold of another dimension stays absent by `dim`, but not by -1.
struct Bound {
  int dim = -1;
  Value offset, limit;
  bool is_repeated = false;
  /// Leaves out every element or none.
  bool is_whole() const { return dim < 0 || is_repeated; }
  /// Leaves out all of a line along `axis` or nothing of it, the same for all lines.
  bool is_whole_along(std::int64_t axis) const { return dim < 0 || (is_repeated && dim == axis); }
  friend bool operator==(const Bound&, const Bound&) = default;
};

class Absence {
 public:
  /// Adds the view_dim ops of the limits at the head of the body, and those of crops before them.
  explicit Absence(Kernel& k);

  std::span<const Bound> of(Value v) const;
  /// Of what a load_view or store_view has as offsets: its box is absent where one of them is.
  std::vector<Bound> at_offsets(OpId op) const;
  /// Absent elements of the value read as 0 already: it comes straight from a view, from where it
  /// is known to lie.
  bool reads_zero(Value v) const;
  template <class From, class To>
  void rename(const From& from, const To& to) {
    for (std::size_t i = 0; i < from.size(); ++i) bounds_[to[i]] = bounds_[from[i]];
  }

 private:
  using List = std::vector<Bound>;
  void region(RegionId r);
  void op(OpId op);
  void load(OpId op);
  void crop(OpId op);
  void cluster_sum(OpId op);
  Value share(OpId op, Value offset, std::int64_t extent);
  void branch(OpId op);
  void loop(OpId op);
  List union_of_operands(OpId op) const;
  void remap(OpId op, const std::vector<int>& new_dim);
  void broadcast(OpId op);
  void reshape(OpId op);
  bool set(Value v, List bounds);
  Value limit(Value view, std::int64_t axis, Type type);

  Kernel& k_;
  std::unordered_map<Value, List> bounds_;
  std::map<std::pair<std::uint32_t, std::int64_t>, Value> limits_;
  std::unordered_map<OpId, Value> ends_;            ///< of crops
  std::map<std::pair<OpId, Value>, Value> shares_;  ///< offsets of parts of cluster sums
};

}  // namespace tegula::ir
