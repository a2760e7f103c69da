// Turns absent elements into plain values. Before: elements of a box outside its view are absent.
// After: they read as 0, and the ops for which absence matters are guarded: reductions and scans
// select the identity, dot gets zeros along k, accesses through pointers get masks, and store_view
// gets limits (one per view dimension after its offsets) if its value is absent inside the view. So
// does a load_view of a dot operand that is cropped.
// Absence is tracked as bounds per tile dimension (element i is present if 0 <= offset + i <
// limit), which cost one comparison per row or column instead of one per element. Boxes of made
// views whose pieces may be cut by the end are accessed by address.
#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"
#include "ir/builder.h"
#include "ir/lines.h"
#include "ir/passes/absence/absence.h"
#include "ir/passes/absence/arg_reduce.h"
#include "ir/passes/absence/box_limits.h"
#include "ir/passes/absence/cut_pieces.h"
#include "ir/pipeline.h"
#include "ir/reduce_kind.h"
#include "ir/view_addresses.h"

namespace tegula::ir {
namespace {

class Materializer {
 public:
  Materializer(Kernel& k, bool keep_checks)
      : k_(k), absence_(k), limits_(k, absence_), keep_checks_(keep_checks) {}

  std::span<const OpId> masked_choices() const { return absence_.masked_choices(); }

  bool run() {
    region(k_.body());
    replace_resolved();
    return changed_;
  }

 private:
  void region(RegionId r) {
    for (OpId op : k_.ops(r)) {
      for (RegionId inner : k_[op].regions)
        if (!is_fold_by_function(k_[op].opcode)) region(inner);
      using enum Opcode;
      const Opcode o = k_[op].opcode;
      if (o == Reduce || o == Scan)
        fold_operand(op);
      else if (o == ArgReduce)
        changed_ |= fill_arg_reduce(k_, absence_, op);
      else if (o == ReduceWith)
        fold_with_validity(op);
      else if (o == ScanWith)
        scan_operands(op);
      else if (o == Sort || o == KeyRanks)
        ordered_operand(op);
      else if (o == Dot)
        dot_operands(op);
      else if (o == LoadView)
        has_cut_pieces(k_, op) ? load_by_address(op) : drop_places(op, absence_.at_indices(op));
      else if (o == StoreView)
        store_limits(op);
      else if (mask_operand(o))
        access_mask(op);
      else if (o == ClusterReduceScatter)
        sum_operand(op);
      else if (o == ClusterGather)
        gathered_operands(op);
      else if (o == Scatter || o == Gather)
        replace_absent_index(op);
      else if (o == FillAbsent)
        fill(op);
      else if (o == Assume && keep_checks_)
        assumed(op);
      else if (o == Crop)
        resolved_.emplace_back(op, k_[op].operands[0]);
      else if (o == Select && is_nowhere(k_, k_[op].operands[2]))
        resolved_.emplace_back(op, side_that_is_somewhere(k_, op));
    }
  }

  // ---- masks
  /// Returns the mask of all bounds of the value that matter for a reduction along `axis`.
  Value mask_along(Builder& b, Value v, std::int64_t axis, bool with_whole = true) {
    Value all;
    for (const PresenceBound& bound : absence_.of(v)) {
      const bool counts =
          bound.is_whole_along(axis) ? with_whole : bound.dim == axis || bound.is_elements();
      if (!counts) continue;
      all = both(b, all, absence_.mask(b, bound, k_.type(v).shape()));
    }
    return all;
  }

  // ---- users
  void fold_operand(OpId op) {
    const std::int64_t axis = k_[op].attrs.i(AttrName::axis);
    const bool whole =
        k_[op].opcode == Opcode::Reduce &&
        std::ranges::any_of(absence_.of(k_[op].operands[0]),
                            [&](const PresenceBound& x) { return x.is_whole_along(axis); });
    if (whole)
      select_result(op);
    else
      narrow_operand(op);
  }

  void narrow_operand(OpId op) {
    Builder b(k_, op);
    const Value v = k_[op].operands[0];
    const Value present =
        mask_along(b, v, k_[op].attrs.i(AttrName::axis), k_[op].opcode != Opcode::Reduce);
    if (!present) return;
    std::string_view kind = k_[op].attrs.s(AttrName::kind);
    const DType dtype = k_.type(v).dtype();
    k_[op].operands[0] = b.select(present, v, reduce_kind(kind).identity(b, dtype));
    changed_ = true;
  }

  /// Handles a bound that excludes the whole tile, whose reduction is then the identity: one select
  /// of the result replaces one per element.
  void select_result(OpId op) {
    Builder b(k_, op);
    Value inside;
    for (const PresenceBound& bound : absence_.of(k_[op].operands[0]))
      if (bound.is_whole_along(k_[op].attrs.i(AttrName::axis)))
        inside = both(b, inside, absence_.scalar_inside(b, bound));
    if (!inside) return;
    const Value result = k_[op].results[0];
    const OpId folded = b.create(Opcode::Reduce, k_[op].operands, k_[op].attrs);
    const Value identity =
        reduce_kind(k_[op].attrs.s(AttrName::kind)).identity(b, k_.type(result).dtype());
    const Value chosen = b.select(inside, k_[folded].results[0], identity);
    absence_.rename(std::vector{result}, std::vector{chosen});
    k_.replace_all_uses(result, chosen);
    k_.erase(op);
    changed_ = true;
    narrow_operand(folded);
  }

  /// Reduces a validity flag with the values, because a user's function has no known identity. The
  /// flag selects the side that exists.
  void fold_with_validity(OpId op) {
    Builder b(k_, op);
    Value present;
    for (Value v : k_[op].operands)
      if (const Value m = mask_along(b, v, k_[op].attrs.i(AttrName::axis)))
        present = both(b, present, m);
    if (present) with_validity(op, present);
  }

  /// Absent elements of an exclusive scan become the identity. In other scans a validity flag is
  /// scanned with the values, except for absent elements after all present ones, which cannot
  /// affect these.
  void scan_operands(OpId op) {
    Builder b(k_, op);
    const bool is_exclusive = k_[op].attrs.i(AttrName::exclusive) != 0;
    const std::size_t n = k_[op].results.size();
    Value present;
    for (std::size_t i = 0; i < n; ++i)
      if (const Value m = mask_of_scan(b, op, k_[op].operands[i])) present = both(b, present, m);
    if (!present) return;
    if (!is_exclusive) return with_validity(op, present);
    for (std::size_t i = 0; i < n; ++i) {
      const Value filled = b.select(present, k_[op].operands[i], k_[op].operands[n + i]);
      k_[op].operands[i] = filled;
    }
    changed_ = true;
  }

  Value mask_of_scan(Builder& b, OpId op, Value v) {
    const std::int64_t axis = k_[op].attrs.i(AttrName::axis);
    const bool is_forward = k_[op].attrs.i(AttrName::reverse) == 0;
    Value all;
    for (const PresenceBound& bound : absence_.of(v)) {
      if (bound.is_whole_along(axis) || (bound.dim != axis && !bound.is_elements())) continue;
      const bool is_end = !bound.mask && !bound.is_elements() &&
                          (bound.is_upper || absence_.facts().is_non_negative(bound.offset, op));
      if (is_end && is_forward) continue;
      all = both(b, all, absence_.mask(b, bound, k_.type(v).shape()));
    }
    return all;
  }

  void with_validity(OpId op, Value present) {
    Builder b(k_, op);
    std::vector<Value> operands(k_[op].operands.begin(), k_[op].operands.end());
    operands.push_back(present);
    const OpId wider = b.create(k_[op].opcode, operands, k_[op].attrs);
    guard_region(op, wider);
    for (std::size_t i = 0; i < k_[op].results.size(); ++i)
      k_.replace_all_uses(k_[op].results[i], k_[wider].results[i]);
    absence_.rename(k_[op].results, k_[wider].results);
    k_.erase(op);
    changed_ = true;
  }

  /// Moves the region of `from` into `to`, which has the flag as an additional operand.
  void guard_region(OpId from, OpId to) {
    const RegionId old = k_[from].regions[0];
    const RegionId made = k_.add_region(to);
    const std::size_t n = k_[from].operands.size();
    std::vector<Value> left, right;
    for (std::size_t i = 0; i < n; ++i) left.push_back(k_.add_arg(made, k_.type(k_[old].args[i])));
    const Value is_left_valid = k_.add_arg(made, Type::scalar(DType::i1));
    for (std::size_t i = 0; i < n; ++i)
      right.push_back(k_.add_arg(made, k_.type(k_[old].args[n + i])));
    const Value is_right_valid = k_.add_arg(made, Type::scalar(DType::i1));
    for (std::size_t i = 0; i < n; ++i) {
      k_.replace_all_uses(k_[old].args[i], left[i]);
      k_.replace_all_uses(k_[old].args[n + i], right[i]);
    }
    for (OpId op : k_.ops(old)) {
      k_.unlink(op);
      k_.append(made, op);
    }
    const OpId yield = k_.terminator(made);
    Builder b(k_, yield);
    const Value both = b.op(Opcode::And, {is_left_valid, is_right_valid});
    for (std::size_t i = 0; i < n; ++i)
      k_[yield].operands[i] =
          b.select(both, k_[yield].operands[i], b.select(is_left_valid, left[i], right[i]));
    const Value either = b.op(
        Opcode::Or, {is_left_valid, is_right_valid});  // first: creating an op may move the yield
    k_[yield].operands.push_back(either);
  }

  /// Masks absent elements of a sort; in key_ranks, absent keys become -1, which is in no bin.
  void ordered_operand(OpId op) {
    Builder b(k_, op);
    const Value v = k_[op].operands[0];
    const bool is_sort = k_[op].opcode == Opcode::Sort;
    const Value present =
        mask_along(b, v, is_sort ? k_[op].attrs.i(AttrName::axis) : 0, /*with_whole=*/!is_sort);
    if (!present) return;
    if (is_sort) {
      k_[op].operands.push_back(present);
    } else {
      const Value filled = b.select(present, v, b.i32(-1));
      k_[op].operands[0] = filled;
    }
    changed_ = true;
  }

  void dot_operands(OpId op) {
    Builder b(k_, op);
    for (std::size_t i = 0; i < 2; ++i) {
      const Value v = k_[op].operands[i];
      const auto rank = static_cast<std::int64_t>(k_.type(v).rank());
      const std::int64_t axis = i == 0 ? rank - 1 : rank - 2;
      if (absence_.is_zero_filled(v, rank == 3 ? -1 : axis) || limits_.end_load(op, v)) continue;
      Value present = mask_along(b, v, axis);
      // The product of an absent batch is 0.
      if (const Value batch = rank == 3 ? mask_along(b, v, 0) : Value())
        present = both(b, present, batch);
      if (!present) continue;
      k_[op].operands[i] = b.select(present, v, b.constant(Type::scalar(k_.type(v).dtype()), 0.0));
      changed_ = true;
    }
  }

  /// Elements that only the sender lacks become 0. If the receiver lacks them, too, nothing reads
  /// the sum.
  void sum_operand(OpId op) {
    Builder b(k_, op);
    const Value v = k_[op].operands[0];
    if (absence_.is_zero_filled(v)) return;
    Value present;
    for (const PresenceBound& bound : absence_.of(v)) {
      if (!bound.mask && is_cluster_uniform(k_, bound.offset) &&
          is_cluster_uniform(k_, bound.limit))
        continue;
      present = both(b, present, absence_.mask(b, bound, k_.type(v).shape()));
    }
    if (!present) return;
    const Value zero = reduce_kind("sum").identity(b, k_.type(v).dtype());
    k_[op].operands[0] = b.select(present, v, zero);
    changed_ = true;
  }

  /// Fills absent elements: the other CTAs do not know the bounds of this one.
  void gathered_operands(OpId op) {
    Builder b(k_, op);
    for (std::size_t i = 0; i < k_[op].operands.size(); ++i) {
      const Value v = k_[op].operands[i];
      if (absence_.of(v).empty() || absence_.is_zero_filled(v)) continue;
      const Value present = absence_.mask_of_all(b, absence_.of(v), k_.type(v));
      k_[op].operands[i] = b.select(present, v, reduce_kind("sum").identity(b, k_.type(v).dtype()));
      changed_ = true;
    }
  }

  /// Returns the outermost enclosing loop in which neither the op's index tiles nor the bounds
  /// change, so that loop-invariant indices can be copied ahead; the op itself if there is none.
  OpId position_before_loops(OpId op, std::span<const PresenceBound> bounds) const {
    OpId place = op;
    const auto is_known = [&](Value v, OpId loop) {
      return !v || (k_.is_visible_from(v, loop) && absence_.of(v).empty());
    };
    for (OpId loop = k_[k_[op].parent].owner; loop && k_[loop].opcode == Opcode::For;
         loop = k_[k_[loop].parent].owner) {
      for (const PresenceBound& bound : bounds)
        if (!is_known(bound.offset, loop) || !is_known(bound.limit, loop) ||
            !is_known(bound.mask, loop))
          return place;
      for (const AccessAxis& axis : access_of(k_, k_[op]).axes)
        if (axis.is_gathered() && !k_.is_visible_from(axis.offset, loop)) return place;
      place = loop;
    }
    return place;
  }

  /// Makes index tiles select nothing where one of the bounds does not hold.
  void drop_places(OpId op, std::vector<PresenceBound> bounds) {
    if (bounds.empty()) return;
    Builder b(k_, position_before_loops(op, bounds));
    b.loc = k_[op].loc;
    for (PresenceBound& bound : bounds)
      if (bound.dim != PresenceBound::kNotSplit) bound.dim = 0;
    BoxAccess a = access_of(k_, k_[op]);
    for (AccessAxis& axis : a.axes) {
      if (!axis.is_gathered()) continue;
      const Type type = k_.type(axis.offset);
      const Value present = absence_.mask_of_all(b, bounds, type);
      const Value nowhere = b.constant(Type::scalar(type.dtype()), std::int64_t{-1});
      axis.offset = b.select(present, axis.offset, nowhere);
      changed_ = true;
    }
    set_access(k_[op], a);
  }

  /// Changes the index tiles of a scattering store so that it skips absent lines.
  void scatter_places(OpId op, std::vector<PresenceBound>& bounds) {
    const int along = access_of(k_, k_[op]).gathered_dim();
    if (along < 0) return;
    std::vector<PresenceBound> places = absence_.at_indices(op);
    std::erase_if(bounds, [&](const PresenceBound& bound) {
      const bool is_of_places = bound.is_whole() || bound.dim == along;
      if (is_of_places) places.push_back(bound);
      return is_of_places;
    });
    drop_places(op, std::move(places));
  }

  void replace_absent_index(OpId op) {
    Builder b(k_, op);
    const bool is_scatter = k_[op].opcode == Opcode::Scatter;
    const Value index = is_scatter ? absence_.dropped_index(b, op) : absence_.filled_index(b, op);
    changed_ = changed_ || index != k_[op].operands[1];
    k_[op].operands[1] = index;
  }

  void store_limits(OpId op) {
    const Value value = stored_value(k_[op]);
    std::vector<PresenceBound> all(absence_.of(value).begin(), absence_.of(value).end());
    std::ranges::copy(absence_.at_offsets(op), std::back_inserter(all));
    scatter_places(op, all);
    const BoxAccess limited = limits_.with_extents(op);
    if (has_cut_pieces(k_, op) || std::ranges::any_of(all, [&](const PresenceBound& x) {
          return limits_.needs_mask(op, limited, x);
        }))
      return store_by_address(op, all);
    changed_ |= limits_.append(op, limited, all);
  }

  /// Masks accesses through pointers where an address or a value is absent.
  void access_mask(OpId op) {
    Builder b(k_, op);
    const std::size_t mask_at = *mask_operand(k_[op].opcode);
    const std::vector<Value> operands(k_[op].operands.begin(), k_[op].operands.end());
    std::vector<PresenceBound> bounds;
    for (Value v : operands)
      for (const PresenceBound& bound : absence_.of(v))
        if (std::ranges::find(bounds, bound) == bounds.end()) bounds.push_back(bound);
    if (bounds.empty()) return;
    const Type pointers = k_.type(operands[0]);
    Value present = operands.size() > mask_at ? operands[mask_at] : Value();
    for (const PresenceBound& bound : bounds)
      present = both(b, present, absence_.present(b, bound, pointers));
    std::vector<Value> masked(operands.begin(),
                              operands.begin() + static_cast<std::ptrdiff_t>(mask_at));
    masked.push_back(present);
    if (operands.size() > mask_at + 1) masked.push_back(operands.back());
    k_[op].operands.assign(masked.begin(), masked.end());
    changed_ = true;
  }

  /// Assumptions do not apply to absent elements.
  void assumed(OpId op) {
    const Value v = k_[op].operands[0];
    Builder b(k_, op);
    const Value present = absence_.mask_of_all(b, absence_.of(v), k_.type(v));
    if (!present) return;
    const Value absent = b.op(Opcode::Not, {present});  // first: creating an op may move the assume
    const Value holds = b.op(Opcode::Or, {v, absent});
    k_[op].operands[0] = holds;
    changed_ = true;
  }

  /// Drops intervals whose absent elements are not observed, because these need not be filled.
  void drop_unobserved(std::vector<PresenceBound>& bounds, Value filled) {
    std::erase_if(bounds, [&](const PresenceBound& x) {
      return x.dim >= 0 && !x.is_broadcast && !x.mask && !absence_.is_observed(filled, x);
    });
  }

  void fill(OpId op) {
    const Value v = k_[op].operands[0], with = k_[op].operands[1];
    const std::string_view kind = k_[op].attrs.s(AttrName::kind);
    Value filled = v;
    const bool is_filled =
        is_zero(k_, with) && kind != "present" &&
        (absence_.is_zero_filled(v) || (kind.empty() && limits_.end_load(op, v)));
    if (kind != "any" && !is_filled) {
      std::vector<PresenceBound> bounds = absence_.before_fill(v);
      if (kind != "present") drop_unobserved(bounds, k_[op].results[0]);
      Builder b(k_, op);
      const Value present = absence_.mask_of_all(b, bounds, k_.type(v));
      if (kind == "present")
        filled = present ? present : b.constant(k_.type(k_[op].results[0]), std::int64_t{1});
      else if (present)
        filled = b.select(present, v, with);
    }
    resolved_.emplace_back(op, filled);
  }

  /// Replaces the settled ops. This comes last: they identify absent elements and define bounds.
  void replace_resolved() {
    // In reverse order, because the replacement of one may be the result of another.
    for (auto it = resolved_.rbegin(); it != resolved_.rend(); ++it) {
      k_.replace_all_uses(k_[it->first].results[0], it->second);
      k_.erase(it->first);
      changed_ = true;
    }
  }

  void load_by_address(OpId op) {
    const Value tile = k_[op].results[0], loaded = load_in_pieces(k_, op);
    absence_.rename(std::vector{tile}, std::vector{loaded});
    k_.replace_all_uses(tile, loaded);
    k_.erase(op);
    changed_ = true;
  }

  /// Stores the present elements one by one.
  void store_by_address(OpId op, std::span<const PresenceBound> bounds) {
    Builder b(k_, op);
    const BoxAccess a = access_of(k_, k_[op]);
    const ViewAddresses addresses = box_addresses(b, a);
    Value present = addresses.inside;
    for (const PresenceBound& bound : bounds) {
      if (!bound.is_whole() && !bound.mask) {
        const auto v = static_cast<int>(a.along[static_cast<std::size_t>(bound.dim)]);
        if (limits_.adds_nothing(op, bound, a.along_dim(bound.dim).offset, v)) continue;
      }
      present = both(b, present, absence_.present(b, bound, a.tile));
    }
    const AttrList attrs = attrs_by_address(k_, op);
    const std::array operands{addresses.pointers, a.stored, present};
    if (attrs.find(AttrName::kind) != nullptr)
      b.create(Opcode::AtomicRmw, operands, attrs);
    else
      b.create(Opcode::Store, operands, std::span<const Type>(), attrs);
    k_.erase(op);
    changed_ = true;
  }

  Kernel& k_;
  Absence absence_;
  BoxLimits limits_;
  std::vector<std::pair<OpId, Value>>
      resolved_;  ///< ops that define absence, and their replacements
  bool keep_checks_;
  bool changed_ = false;
};

}  // namespace

bool materialize_absence(Kernel& kernel, PassContext& context) {
  Materializer materializer(kernel, context.keep_checks);
  for (OpId op : materializer.masked_choices())
    context.remark(Remark::Kind::Missed, kernel[op].loc,
                   "presence in the result of where needs a mask of one i1 per element: name equal "
                   "dimensions, assume the extents equal, or fill_absent() the shorter tile");
  return materializer.run();
}

}  // namespace tegula::ir
