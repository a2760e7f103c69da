// Absence of choices: a select chooses each element, a branch chooses whole values. An element is
// present if the chosen side has it.
#include <algorithm>

#include "ir/analysis/implied.h"
#include "ir/analysis/uniform.h"
#include "ir/passes/absence/absence.h"

namespace tegula::ir {
namespace {

/// "No limit" is a multiple of every access width, so that it does not narrow the accesses.
constexpr std::int64_t kNoLimit = INT32_MAX - 63;

}  // namespace

Absence::Sides Absence::compare(std::span<const PresenceBound> first,
                                std::span<const PresenceBound> second) {
  Sides s;
  for (const PresenceBound& bound : first)
    (std::ranges::find(second, bound) != second.end() ? s.both : s.first).push_back(bound);
  for (const PresenceBound& bound : second)
    if (std::ranges::find(first, bound) == first.end()) s.second.push_back(bound);
  return s;
}

/// Returns the scalar that a uniform condition tile repeats; null if the tile is not uniform.
Value Absence::repeated_scalar(Value condition) {
  if (!k_.type(condition).is_tile()) return condition;
  Value& scalar = scalars_[condition];
  if (scalar || !is_uniform(k_, condition)) return scalar;
  const OpId def = k_[condition].def;
  const OpData d = k_[def];
  using enum Opcode;
  const bool is_moved = d.is(Broadcast, ExpandDims, Reshape, Permute);
  std::vector<Value> operands;
  for (Value o : d.operands) operands.push_back(repeated_scalar(o));
  Value made;
  if (d.opcode == Splat || is_moved) {
    made = operands[0];
  } else {
    Builder b = Builder::after(k_, def);
    const Type type = Type::of(k_.type(condition).elem());
    made = k_[b.create(d.opcode, operands, std::span(&type, 1), d.attrs)].results[0];
  }
  return scalars_[condition] = made;
}

/// Returns the condition of a choice, or the scalar that it repeats, without absent elements, for
/// ops that compute the bounds of the result. The value there is arbitrary, because the result is
/// absent where the condition is.
Value Absence::present_condition(OpId choice, Value v) {
  if (of(k_[choice].operands[0]).empty()) return v;
  Value& present = present_conditions_[{choice, v}];
  if (!present) {
    Builder b(k_, choice);
    present = any_value(b, v);
  }
  return present;
}

void Absence::select(OpId id) {
  const Value condition = k_[id].operands[0], result = k_[id].results[0];
  if (is_nowhere(k_, k_[id].operands[2]) && !repeated_scalar(condition)) return select_present(id);
  const Sides sides = compare(of(k_[id].operands[1]), of(k_[id].operands[2]));
  List all(of(condition).begin(), of(condition).end());
  merge_bounds(all, sides.both);
  const bool differ = !sides.first.empty() || !sides.second.empty();
  if (const Value scalar = differ ? repeated_scalar(condition) : Value()) {
    const Value taken = present_condition(id, scalar);
    for (const PresenceBound& bound : sides.first)
      all.push_back(guarded(id, taken, true, bound, RegionId()));
    for (const PresenceBound& bound : sides.second)
      all.push_back(guarded(id, taken, false, bound, RegionId()));
  } else if (differ) {
    choose_elements(id, condition, sides, all);
  }
  set(result, std::move(all));
}

/// Handles a select between a value and nothing: its condition is the mask of the result.
void Absence::select_present(OpId id) {
  const Value condition = k_[id].operands[0];
  List all(of(condition).begin(), of(condition).end());
  merge_bounds(all, of(k_[id].operands[1]));
  PresenceBound elements{PresenceBound::kElements};
  elements.mask = present_condition(id, condition);
  merge_bounds(all, std::array{elements});
  set(k_[id].results[0], std::move(all));
}

/// Adds the bounds of only one side, which apply to the elements chosen from that side. Bounds that
/// the condition implies are dropped, intervals that are not observed stay intervals, and the
/// others become a mask.
void Absence::choose_elements(OpId id, Value condition, const Sides& sides, List& all) {
  Implications implied(k_, facts());
  const Value result = k_[id].results[0];
  List masked[2];
  bool is_seen = false;
  for (const bool when : {true, false}) {
    for (PresenceBound bound : when ? sides.first : sides.second) {
      const bool is_interval = bound.dim >= 0 && !bound.is_broadcast && !bound.mask;
      if (is_interval) {
        const auto below = [&](bool side) {
          return implied.is_below(condition, side, bound.dim, bound.offset, bound.limit, id);
        };
        const bool from_zero =
            bound.is_upper || implied.is_not_negative(condition, when, bound.dim, bound.offset, id);
        if (from_zero && below(when)) continue;
        if (!is_observed(result, bound)) {
          merge_bounds(all, std::array{bound});
          continue;
        }
        is_seen = true;
        if (from_zero && below(!when)) {
          bound.is_upper = bound.is_of_elements = true;
          merge_bounds(all, std::array{bound});
          continue;
        }
      }
      is_seen = true;
      masked[when ? 0 : 1].push_back(bound);
    }
  }
  if (is_seen) join_edges(id, sides, all);
  if (masked[0].empty() && masked[1].empty()) return;
  List from = masked[0];
  from.push_back(PresenceBound{});  // separates the two sides
  from.insert(from.end(), masked[1].begin(), masked[1].end());
  DerivedBounds& made = made_[{id, 0}];
  if (made.from != from) {
    Builder b = Builder::after(k_, id);
    const Type type = k_.type(result);
    const auto side = [&](const List& bounds) {
      const Value m = mask_of_all(b, bounds, type);
      return m ? m : b.constant(type.with_dtype(DType::i1), std::int64_t{1});
    };
    PresenceBound chosen{PresenceBound::kElements};
    const Value first = side(masked[0]), second = side(masked[1]);
    chosen.mask = made_mask(b.select(present_condition(id, condition), first, second));
    made = {from, {chosen}};
    if (std::ranges::find(masked_choices_, id) == masked_choices_.end())
      masked_choices_.push_back(id);
  }
  all.push_back(made.bounds[0]);
}

/// Adds bounds for the coordinates that are absent on both sides, and thus in the result.
void Absence::join_edges(OpId id, const Sides& sides, List& all) {
  const auto shape = k_.type(k_[id].results[0]).shape();
  for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
    const auto along = [&](const List& bounds) {
      List found;
      for (const PresenceBound& bound : bounds)
        if (bound.dim == dim && !bound.is_of_elements) found.push_back(bound);
      return found;
    };
    const List first = along(sides.first), second = along(sides.second);
    if (first.empty() || second.empty()) continue;
    List from = first;
    from.push_back(PresenceBound{});
    from.insert(from.end(), second.begin(), second.end());
    DerivedBounds& made = made_[{id, static_cast<std::size_t>(1 + dim)}];
    if (made.from != from) {
      Builder b = Builder::after(k_, id);
      const std::int64_t extent = shape[static_cast<std::size_t>(dim)];
      PresenceBound either{dim};
      const Value one = line_of_all(b, first, extent);
      either.mask = made_mask(b.op(Opcode::Or, {one, line_of_all(b, second, extent)}));
      made = {from, {either}};
    }
    all.push_back(made.bounds[0]);
  }
}

// ---- branches -----------------------------------------------------------------------------------
/// Returns the value in a form that is visible after `choice`. A value of region `from` of the
/// branch becomes a result of the branch, which is 0 if the other region is taken.
Value Absence::visible_after(OpId choice, RegionId from, Value v) {
  if (!from || k_.is_visible_from(v, choice)) return v;
  Value& out = exported_[{choice, v}];
  if (out) return out;
  const Type type = k_.type(v);
  const std::vector<RegionId> regions(k_[choice].regions.begin(), k_[choice].regions.end());
  for (RegionId r : regions) {
    Value given = v;
    if (r != from) {
      Builder b(k_);
      b.before(k_.terminator(r));
      given = b.constant(type, std::int64_t{0});
    }
    k_[k_.terminator(r)].operands.push_back(given);
  }
  out = k_.add_result(choice, type);
  return is_bool(type.dtype()) ? made_mask(out) : out;
}

/// Returns a bound that equals `bound` if the scalar `condition` is `when`, and otherwise excludes
/// nothing.
PresenceBound Absence::guarded(OpId choice, Value condition, bool when, PresenceBound bound,
                               RegionId from) {
  // The key is the bound followed by a marker for the side.
  List key{bound, PresenceBound{when ? PresenceBound::kNotSplit : PresenceBound::kElements}};
  std::size_t slot = 16;
  for (; made_.contains({choice, slot}); ++slot)
    if (made_[{choice, slot}].from == key) return made_[{choice, slot}].bounds[0];
  for (Value* part : {&bound.offset, &bound.limit, &bound.mask})
    if (*part) *part = visible_after(choice, from, *part);
  Builder b = Builder::after(k_, choice);
  const auto choose = [&](Value mine, Value other) {
    return when ? b.select(condition, mine, other) : b.select(condition, other, mine);
  };
  if (bound.mask) {
    bound.mask = made_mask(choose(bound.mask, b.constant(k_.type(bound.mask), std::int64_t{1})));
  } else {
    // Absence of the offset itself matters only if this side is chosen.
    const Value offset = plain(b, bound.offset);
    bound.offset = choose(offset, b.constant(k_.type(offset), std::int64_t{0}));
    bound.limit = choose(bound.limit, b.constant(k_.type(bound.limit), kNoLimit));
    bound.is_guarded = true;
  }
  made_[{choice, slot}] = {std::move(key), {bound}};
  return bound;
}

/// Combines the bounds of both regions. A bound of only one region applies if that region is taken.
void Absence::branch(OpId id) {
  const std::vector<RegionId> regions(k_[id].regions.begin(), k_[id].regions.end());
  for (RegionId r : regions) region(r);
  const Value condition = k_[id].operands[0];
  const std::size_t count = k_[id].results.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto side = [&](std::size_t r) {
      const auto found = of(k_[k_.terminator(regions[r])].operands[i]);
      return List(found.begin(), found.end());
    };
    const Sides sides = compare(side(0), side(1));
    List all(of(condition).begin(), of(condition).end());
    merge_bounds(all, sides.both);
    for (const bool when : {true, false})
      for (const PresenceBound& bound : when ? sides.first : sides.second)
        merge_bounds(all, std::array{guarded(id, condition, when, bound, regions[when ? 0 : 1])});
    set(k_[id].results[i], std::move(all));
  }
}

}  // namespace tegula::ir
