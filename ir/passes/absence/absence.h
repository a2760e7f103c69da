#pragma once
// Analysis of the elements of each tile that may be absent, as bounds per dimension or, if no
// interval describes them, as masks (docs/language/absence.md). It uses the attributes of
// prove_bounds, or proves boxes in bounds itself. It inserts the ops that compute bounds, and
// rewrites loop carries so that they keep their elements.
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/analysis/facts.h"
#include "ir/builder.h"
#include "ir/uses.h"

namespace tegula::ir {

/// A condition under which elements are present. Element i along `dim` is present only if 0 <=
/// offset + i < limit. If a broadcast repeats a single element (is_broadcast), each copy is present
/// only if 0 <= offset < limit. With dim kNotSplit, the whole tile is present only if 0 <= offset <
/// limit. The result of a reduction along another dimension keeps a bound on `dim`, but not one
/// with kNotSplit.
///
/// A mask replaces the interval: a scalar i1 for the whole tile, an i1 of one dimension along
/// `dim`, or, with dim kElements, an i1 of the tile's shape.
struct PresenceBound {
  static constexpr int kNotSplit = -1, kElements = -2;
  int dim = kNotSplit;
  Value offset{}, limit{};
  bool is_broadcast = false;
  Value mask{};
  /// Only the upper end is checked, offset + i < limit: elements before the start of the view are
  /// present.
  bool is_upper = false;
  /// A condition selects the bound: where the condition does not hold, no element reaches the
  /// limit.
  bool is_guarded = false;
  /// The bound applies to elements, not to coordinates: a reduction along another dimension skips
  /// the absent elements.
  bool is_of_elements = false;

  /// Returns true if a crop can express the bound: an interval of coordinates.
  bool is_interval() const { return !mask && !is_upper && !is_of_elements; }
  bool is_elements() const { return dim == kElements || is_of_elements; }
  /// Returns true if the bound excludes all elements or none.
  bool is_whole() const { return dim == kNotSplit || is_broadcast; }
  /// Returns true if the bound excludes all elements of a line along `axis` or none, and treats all
  /// lines alike.
  bool is_whole_along(std::int64_t axis) const {
    return dim == kNotSplit || (is_broadcast && dim == axis);
  }
  friend bool operator==(const PresenceBound&, const PresenceBound&) = default;
};

class Absence {
 public:
  /// Runs the analysis. Adds the view_dim ops of limits at the start of the body, and the ops for
  /// the limits of crops before these. `defines_carries`: initial values of loop carries are made
  /// to lack what all later values lack, and if they lack more, the loop also carries presence.
  explicit Absence(Kernel& k, bool defines_carries = false);

  std::span<const PresenceBound> of(Value v) const;
  /// Returns the bounds of the scalar offsets of a load_view or store_view. Its box is absent if
  /// one of them is.
  std::vector<PresenceBound> at_offsets(OpId op) const;
  /// Returns the bounds of the op's index tiles, as bounds on the gathered dimension of its tile.
  std::vector<PresenceBound> at_indices(OpId op) const;
  /// Returns the bounds that a fill_absent of the value fills. For a single element that a
  /// load_view reads, they include the bounds of its view.
  std::vector<PresenceBound> before_fill(Value v);
  /// Returns true if the absent elements of the value already read as 0. With an axis, lines along
  /// it without any present element are ignored.
  bool is_zero_filled(Value v, std::int64_t axis = -1) const;
  template <class From, class To>
  void rename(const From& from, const To& to) {
    for (std::size_t i = 0; i < from.size(); ++i) bounds_[to[i]] = bounds_[from[i]];
  }
  const Facts& facts() const { return known_; }
  /// Returns true if the contents of the value outside of an interval matter (absence_use.cpp).
  /// They do not if they only reach stores that drop these elements anyway.
  bool is_observed(Value v, const PresenceBound& interval);
  /// Returns the selects whose results are described by a mask.
  std::span<const OpId> masked_choices() const { return masked_choices_; }
  /// Returns true if a loop carry was rewritten.
  bool rewrote_carries() const { return rewritten_ != 0; }

  // ---- bounds as conditions
  /// Returns the condition of a bound that is whole, as a scalar i1.
  Value scalar_inside(Builder& b, const PresenceBound& bound);
  /// Returns the condition of a bound along its dimension, as an i1 tile of one dimension.
  Value line(Builder& b, const PresenceBound& bound, std::int64_t extent);
  /// Returns an i1 tile of `shape` that is true where the bound holds.
  Value mask(Builder& b, const PresenceBound& bound, std::span<const std::int64_t> shape);
  /// Returns the condition of a bound for a value of `type`: a mask of its shape, or a scalar.
  Value present(Builder& b, const PresenceBound& bound, Type type);
  /// Returns the conjunction of all bounds along one dimension; null if there are no bounds.
  Value line_of_all(Builder& b, std::span<const PresenceBound> bounds, std::int64_t extent);
  /// Returns the conjunction of all bounds for a value of `type`, tile or scalar; null if there are
  /// no bounds.
  Value mask_of_all(Builder& b, std::span<const PresenceBound> bounds, Type type);
  /// Returns an offset, replaced by 0 where it is itself absent.
  Value plain(Builder& b, Value offset);
  /// Returns the index of a scatter, replaced by -1 where the index or the value is absent, so that
  /// the scatter drops the element.
  Value dropped_index(Builder& b, OpId scatter);
  /// Returns the index of a gather, replaced by 0 where it is absent, because its registers may
  /// contain anything there.
  Value filled_index(Builder& b, OpId gather);

 private:
  using List = std::vector<PresenceBound>;
  struct Sides {
    List both, first, second;  ///< bounds of both values, of the first only, of the second only
  };

  struct Lacking {
    List always, at_times;  ///< bounds of a carry's next value: in all iterations, in some
  };

  void region(RegionId r);
  void op(OpId op);
  void load(OpId op);
  List outside(OpId op);
  void crop(OpId op);
  void cluster_reduce_scatter(OpId op);
  Value share(OpId op, Value offset, std::int64_t extent);
  void reduce(OpId op);
  void sort(OpId op);
  PresenceBound sorted_line(Builder& b, OpId sort, std::span<const PresenceBound> bounds);
  PresenceBound sorted_elements(Builder& b, OpId sort, std::span<const PresenceBound> bounds);
  void key_ranks(OpId op);
  void dot(OpId op);
  List union_of_operands(OpId op) const;
  void remap(OpId op);
  Value moved_mask(OpId op, Value mask);
  void broadcast(OpId op);
  PresenceBound reshaped(Builder& b, const PresenceBound& bound, std::span<const std::int64_t> from,
                         std::span<const std::int64_t> to);
  void reshape(OpId op);
  bool set(Value v, List bounds);
  Value made_mask(Value mask);
  Value limit(Value view, std::int64_t axis, Type type);
  Value below(Builder& b, Value position, const PresenceBound& bound);

  // ---- parts of tiles (absence_parts.cpp)
  PresenceBound sliced(OpId op, PresenceBound bound);
  void tile_slice(OpId op);
  void tile_concat(OpId op);
  PresenceBound concatenated(OpId op, std::span<const Value> parts, std::span<const List> bounds,
                             int axis);
  void join_lines(OpId op, std::span<const List> bounds, int dim, List& all);
  void gather(OpId op);
  void scatter(OpId op);

  // ---- selects and branches (absence_choice.cpp)
  static Sides compare(std::span<const PresenceBound> first, std::span<const PresenceBound> second);
  Value repeated_scalar(Value condition);
  Value present_condition(OpId choice, Value v);
  void select(OpId op);
  void select_present(OpId op);
  void choose_elements(OpId op, Value condition, const Sides& sides, List& all);
  void join_edges(OpId op, const Sides& sides, List& all);
  void branch(OpId op);
  PresenceBound guarded(OpId choice, Value condition, bool when, PresenceBound bound,
                        RegionId from);
  Value visible_after(OpId choice, RegionId from, Value v);

  // ---- loops (absence_carry.cpp)
  void loop(OpId op);
  bool follow(OpId loop);
  bool grow(OpId loop, std::size_t i, List& carried);
  std::span<const PresenceBound> begin_of(OpId loop, std::size_t i) const;
  Lacking next_lacks(OpId loop, std::size_t i, const List& carried) const;
  bool keep_at_times(OpId loop, std::size_t i, const List& carried);
  bool begin_apart(OpId loop, std::size_t i, const List& carried);
  bool begin_alike(OpId loop, std::size_t i, const List& carried);
  void lack_alike(OpId loop, std::size_t i, const List& found);
  bool is_invariant(OpId loop, Value v, int depth = 0) const;
  void move_before(OpId loop, Value v);
  bool hoist_bound(OpId loop, const PresenceBound& bound);
  void keep(OpId loop, std::size_t i, const List& varying, const List& invariant);
  Value sum_that_keeps(Builder& b, OpId next, Value old, const List& varying);
  Value cropped(Builder& b, Value v, std::span<const PresenceBound> bounds);

  // ---- presence that loops carry (absence_presence.cpp)
  [[noreturn]] void refuse(OpId loop, Value start, Value next) const;
  Value end_of(const PresenceBound& bound) const;
  bool is_limit_of_crop(const PresenceBound& bound) const;
  const PresenceBound* find_bound(std::span<const PresenceBound> list,
                                  const PresenceBound& bound) const;
  bool has_bound(std::span<const PresenceBound> list, const PresenceBound& bound) const;
  Value any_value(Builder& b, Value v) const;
  Value only_where(Builder& b, Value condition, Value v) const;
  void replace_by_present(Builder& b, Value v, Value present, std::span<const PresenceBound> cut);
  void add_presence(OpId loop, std::size_t i, const List& always, bool keeps);

  Kernel& k_;
  Facts known_;
  std::unordered_map<Value, List> bounds_;
  std::map<std::pair<std::uint32_t, std::int64_t>, Value> limits_;
  std::unordered_map<Value, Value> scalars_;  ///< scalars that uniform condition tiles repeat
  std::map<std::pair<OpId, Value>, Value> present_conditions_;  ///< conditions of choices, filled
  std::unordered_map<OpId, Value> ends_;                        ///< ends of crops
  std::map<std::pair<OpId, Value>, Value> shares_;  ///< offsets of parts of cluster sums
  std::map<std::pair<OpId, Value>, Value> moved_;   ///< masks that shape ops moved
  /// Bounds derived from the list `from` at an op, cached so that another visit of the op adds no
  /// ops.
  struct DerivedBounds {
    List from, bounds;
  };
  std::map<std::pair<OpId, std::size_t>, DerivedBounds> made_;
  std::map<std::pair<OpId, Value>, Value> exported_;  ///< branch results added for inner values
  /// Masks made from bounds. No bounds are recorded for them: separate bounds describe their
  /// absence, and the ops of such bounds may come after the masks.
  std::unordered_set<Value> masks_;
  std::optional<Uses> uses_;
  std::size_t uses_of_ = 0;  ///< op count when uses_ was computed
  std::vector<OpId> masked_choices_;
  std::size_t rewritten_ = 0;  ///< number of rewritten loop carries
  bool defines_carries_;
  int open_loops_ = 0;  ///< enclosing loops whose carries are not settled yet
};

/// Returns true if the bound starts at `offset`, or at a cast of it.
bool begins_at(const Kernel& k, const PresenceBound& bound, Value offset);

/// Returns true for a crop that leaves no element of its tile.
bool is_nowhere(const Kernel& k, Value v);
/// Returns the first side of a select whose other side is nowhere, in the type of its result.
Value side_that_is_somewhere(Kernel& k, OpId select);

/// Appends the bounds of `more` that `into` does not contain yet.
void merge_bounds(std::vector<PresenceBound>& into, std::span<const PresenceBound> more);

}  // namespace tegula::ir
