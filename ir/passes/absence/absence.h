#pragma once
// Elements of each tile that may be absent, as bounds per dimension and, if no interval describes
// them, as masks (docs/language/absence.md). Needs prove_bounds' attributes or proves boxes inside
// itself. Adds the ops that bounds are made of, and makes loop carries keep their elements.
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/analysis/index_facts.h"
#include "ir/builder.h"
#include "ir/uses.h"

namespace tegula::ir {

/// Element i along `dim` is present only if 0 <= offset + i < limit; where a broadcast repeats the
/// one element there was, each only if 0 <= offset < limit. dim kWhole: the whole tile only if 0 <=
/// offset < limit. A fold of another dimension stays absent by `dim`, but not by kWhole.
/// With a mask there is no interval: a scalar i1 for the whole tile, an i1 of one dimension along
/// `dim`, or for dim kElements an i1 of the tile's shape.
struct PresenceBound {
  static constexpr int kNotSplit = -1, kElements = -2;
  int dim = kNotSplit;
  Value offset{}, limit{};
  bool is_broadcast = false;
  Value mask{};
  /// Elements in front of the view are not left out: offset + i < limit.
  bool is_upper = false;
  /// A bound that a condition chooses: where it does not hold, the limit is that of a tile without
  /// end.
  bool is_guarded = false;
  /// Says of elements, not of coordinates: a fold of another dimension skips what is left out.
  bool is_of_elements = false;

  /// The bound is one that a crop states: an interval of coordinates.
  bool is_interval() const { return !mask && !is_upper && !is_of_elements; }
  bool is_elements() const { return dim == kElements || is_of_elements; }
  /// Leaves out every element or none.
  bool is_whole() const { return dim == kNotSplit || is_broadcast; }
  /// Leaves out all of a line along `axis` or nothing of it, the same for all lines.
  bool is_whole_along(std::int64_t axis) const {
    return dim == kNotSplit || (is_broadcast && dim == axis);
  }
  friend bool operator==(const PresenceBound&, const PresenceBound&) = default;
};

class Absence {
 public:
  /// Adds the view_dim ops of the limits at the head of the body, and those of crops before them.
  /// `defines_carries`: first values of loops come to lack what all later values lack, and where
  /// they lack more, presence is carried, too.
  explicit Absence(Kernel& k, bool defines_carries = false);

  std::span<const PresenceBound> of(Value v) const;
  /// Bounds of a load_view or store_view from its scalar offsets: its box is absent if one of them
  /// is.
  std::vector<PresenceBound> at_offsets(OpId op) const;
  /// Bounds of its index tiles, as bounds of the tile dimension that these go along.
  std::vector<PresenceBound> at_indices(OpId op) const;
  /// The bounds that fill_absent finds absent: of an element that is read right before it, that it
  /// lies outside.
  std::vector<PresenceBound> before_fill(Value v);
  /// Absent elements of the value read as 0 already; with an axis, those that are absent in a line
  /// along it that has others.
  bool is_zero_filled(Value v, std::int64_t axis = -1) const;
  template <class From, class To>
  void rename(const From& from, const To& to) {
    for (std::size_t i = 0; i < from.size(); ++i) bounds_[to[i]] = bounds_[from[i]];
  }
  const Facts& facts() const { return known_.facts(); }
  /// Whether it matters what the value has outside of an interval (absence_use.cpp): not where all
  /// that becomes of it is stored, and the stores drop it by themselves.
  bool is_observed(Value v, const PresenceBound& interval);
  /// Selects of which a mask says what is there of their result.
  std::span<const OpId> masked_choices() const { return masked_choices_; }
  /// Something that a loop carries was made to keep its elements.
  bool rewrote_carries() const { return rewritten_ != 0; }

  // ---- conditions that say what a bound says
  /// The condition of a bound that is whole: a scalar i1.
  Value scalar_inside(Builder& b, const PresenceBound& bound);
  /// i1 of one dimension, along that of the bound.
  Value line(Builder& b, const PresenceBound& bound, std::int64_t extent);
  /// i1 tile of `shape` that is true where the bound holds.
  Value mask(Builder& b, const PresenceBound& bound, std::span<const std::int64_t> shape);
  /// The same of all bounds, for values of any type; none where there are no bounds.
  Value mask_of_all(Builder& b, std::span<const PresenceBound> bounds, Type type);
  /// An offset that may be absent itself: 0 where it is.
  Value plain(Builder& b, Value offset);
  /// The index of a scatter, -1 where it or the value is absent, so that the scatter drops it.
  Value dropped_index(Builder& b, OpId scatter);
  /// The index of a gather, 0 where it is absent: registers there may hold anything.
  Value filled_index(Builder& b, OpId gather);

 private:
  using List = std::vector<PresenceBound>;
  struct Sides {
    List both, first, second;  ///< bounds of both values, of the first alone, of the second alone
  };

  struct Lacking {
    List always, at_times;  ///< bounds of a carry's next value in every iteration, in some
  };

  void region(RegionId r);
  void op(OpId op);
  void load(OpId op);
  List outside(OpId op, std::vector<Value> operands);
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
  void remap(OpId op, const std::vector<int>& new_dim);
  Value moved_mask(OpId op, Value mask);
  void broadcast(OpId op);
  PresenceBound reshaped(Builder& b, const PresenceBound& bound, std::span<const std::int64_t> from,
                         std::span<const std::int64_t> to);
  void reshape(OpId op);
  bool set(Value v, List bounds);
  Value made_mask(Value mask);
  Value limit(Value view, std::int64_t axis, Type type);
  Value below(Builder& b, Value at, const PresenceBound& bound);

  // ---- parts of tiles (absence_parts.cpp)
  PresenceBound sliced(OpId op, PresenceBound bound);
  void tile_slice(OpId op);
  void tile_concat(OpId op);
  PresenceBound concatenated(OpId op, std::span<const Value> parts, std::span<const List> bounds,
                             int axis);
  void join_lines(OpId op, std::span<const List> bounds, int dim, List& all);
  void gather(OpId op);
  void scatter(OpId op);

  // ---- what becomes of two values (absence_choice.cpp)
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
  Value visible_behind(OpId choice, RegionId from, Value v);

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
  void move_in_front(OpId loop, Value v);
  bool bring_in_front(OpId loop, const PresenceBound& bound);
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
  IndexFacts known_;
  std::unordered_map<Value, List> bounds_;
  std::map<std::pair<std::uint32_t, std::int64_t>, Value> limits_;
  std::unordered_map<Value, Value> scalars_;  ///< scalars of conditions that repeat one
  std::map<std::pair<OpId, Value>, Value> present_conditions_;  ///< conditions of choices, filled
  std::unordered_map<OpId, Value> ends_;                        ///< ends of crops
  std::map<std::pair<OpId, Value>, Value> shares_;  ///< offsets of parts of cluster sums
  std::map<std::pair<OpId, Value>, Value> moved_;   ///< masks that shape ops moved
  /// The ops made of these lists at an op, so that looking at it again makes nothing new.
  struct DerivedBounds {
    List from, bounds;
  };
  std::map<std::pair<OpId, std::size_t>, DerivedBounds> made_;
  std::map<std::pair<OpId, Value>, Value> exported_;  ///< values of branches that they hand out
  /// Masks that were made of bounds: nothing says of them what is there, for it is said beside
  /// them, and the ops that would say so may stand behind them.
  std::unordered_set<Value> masks_;
  std::optional<Uses> uses_;
  std::size_t uses_of_ = 0;  ///< ops there were when uses were looked for
  std::vector<OpId> masked_choices_;
  std::size_t rewritten_ = 0;  ///< carries of loops that became others
  bool defines_carries_;
  int unsettled_ = 0;  ///< loops around, of which it is not known yet what they carry
};

/// The bound's tile begins at the offset, which may be a narrower index than the bound has.
bool begins_at(const Kernel& k, const PresenceBound& bound, Value offset);

/// A crop that leaves nothing of its tile.
bool is_nowhere(const Kernel& k, Value v);
/// The value that replaces a select whose other side is nowhere, in the type of its result.
Value side_that_is_somewhere(Kernel& k, OpId select);

/// Adds what is not there yet.
void merge_bounds(std::vector<PresenceBound>& into, std::span<const PresenceBound> more);

}  // namespace tegula::ir
