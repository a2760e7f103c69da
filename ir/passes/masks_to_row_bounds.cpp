// Rewrites mask conditions on columns as one lower and one upper column bound per row.
//
// Before:  and (cmp lt cols, length), (cmp ge rows, cols)                     of tiles [m, n]
// After:   limit = min (length - first), (rows + 1 - first)          of [m, 1], within 0 .. n
//          cmp lt (arange n), limit
// The cost of a mask is its cost per element. However many comparisons with a position it contains,
// a row has one upper and one lower limit, and an element is compared once with each
// (docs/masks.md). This is exact for all limits, because they are clamped to the tile before they
// are made relative to its first column. The pass assumes that the difference of two positions does
// not wrap.
#include <algorithm>
#include <optional>
#include <unordered_set>
#include <vector>

#include "ir/erase_unused.h"
#include "ir/lines.h"
#include "ir/passes/terms/linear_form.h"
#include "ir/pipeline.h"
#include "ir/ramp.h"
#include "ir/uses.h"

namespace tegula::ir {
namespace {

/// first <= column < end of the tile's columns; null: no limit on that side.
struct RowBounds {
  Value first, end;
};

/// sign * column + rest; without a column if the sign is 0.
struct Side {
  int sign = 0;
  Value rest;  ///< a scalar or [m, 1]; null: 0
  bool is_position = false;
};

class MasksToRowBounds {
 public:
  explicit MasksToRowBounds(Kernel& k)
      : k_(k), b_(k), rows_have_accumulator_layout_(k.info.target->has_wgmma) {}

  bool run() {
    std::vector<OpId> roots;
    std::unordered_set<Value> inner;
    walk(k_, k_.body(), [&](OpId op) {
      const OpData& d = k_[op];
      if (is_combination(d.opcode)) inner.insert(d.operands.begin(), d.operands.end());
      if (d.opcode == Opcode::And && is_condition(d.results[0])) roots.push_back(op);
    });
    const Uses uses(k_);
    std::erase_if(roots, [&](OpId op) {
      const Value v = k_[op].results[0];
      return inner.contains(v) || (is_guard(uses, v) && compares_distances(v));
    });
    bool changed = false;
    for (OpId op : roots) changed |= rewrite(op);
    return changed;
  }

 private:
  /// Returns true if only loads from addresses use the value.
  bool is_guard(const Uses& uses, Value v) const {
    return std::ranges::all_of(uses.of(v),
                               [&](const Uses::Use& u) { return k_[u.op].opcode == Opcode::Load; });
  }
  /// Returns true if the condition compares distances. Guards of lookups by distance are constant
  /// along diagonals themselves as long as they are written this way (ir/analysis/diagonals).
  bool compares_distances(Value v) const {
    const OpId def = k_[v].def;
    if (!def) return false;
    const OpData& d = k_[def];
    const auto is_distance = [&](Value x) {
      const OpId of = k_[x].def;
      return of && k_[of].opcode == Opcode::Sub && LinearForms::has_broadcast_dims(k_.type(x));
    };
    if (d.opcode == Opcode::Cmp) return std::ranges::any_of(d.operands, is_distance);
    return is_combination(d.opcode) &&
           std::ranges::any_of(d.operands, [&](Value x) { return compares_distances(x); });
  }
  static bool is_combination(Opcode o) { return o == Opcode::And || o == Opcode::Or; }
  bool is_condition(Value v) const {
    const Type t = k_.type(v);
    return LinearForms::has_broadcast_dims(t) && t.dtype() == DType::i1;
  }

  /// Rewrites a conjunction: combines its bounds, and keeps the other conditions.
  bool rewrite(OpId root) {
    const Value whole = k_[root].results[0];
    type_ = k_.type(whole);
    b_.before(root);
    b_.loc = k_[root].loc;
    columns_.reset();
    comparisons_ = 0;
    RowBounds all;
    std::vector<Value> others;
    collect(whole, all, others);
    if (comparisons_ < 2) return false;
    Value condition = written(all);
    for (Value v : others) condition = ir::both(b_, condition, v);
    k_.replace_all_uses(whole, condition);
    erase_unused(k_, whole);
    return true;
  }

  void collect(Value v, RowBounds& all, std::vector<Value>& others) {
    const OpId def = k_[v].def;
    if (def && k_[def].opcode == Opcode::And) {
      const std::vector<Value> operands(k_[def].operands.begin(), k_[def].operands.end());
      for (Value operand : operands) collect(operand, all, others);
      return;
    }
    const int before = comparisons_;
    if (const auto limits = limits_of(v)) {
      all = both(all, *limits);
      return;
    }
    comparisons_ = before;
    others.push_back(v);
  }

  // ---- limits -----------------------------------------------------------------------------------
  std::optional<RowBounds> limits_of(Value v) {
    const OpId def = k_[v].def;
    if (!def) return std::nullopt;
    const std::vector<Value> operands(k_[def].operands.begin(), k_[def].operands.end());
    using enum Opcode;
    const Opcode o = k_[def].opcode;
    if (o == Broadcast) return limits_of(operands[0]);
    if (o == Cmp) return compared(def);
    if (o != And && o != Or) return std::nullopt;
    const auto x = limits_of(operands[0]), y = x ? limits_of(operands[1]) : std::nullopt;
    if (!x || !y) return std::nullopt;
    return o == And ? both(*x, *y) : either(*x, *y);
  }

  RowBounds both(const RowBounds& x, const RowBounds& y) {
    return {tightest(Opcode::Max, x.first, y.first), tightest(Opcode::Min, x.end, y.end)};
  }
  /// Returns the union; it is an interval if both are limited on the same side only.
  std::optional<RowBounds> either(const RowBounds& x, const RowBounds& y) {
    if (!x.first && !y.first) return RowBounds{{}, tightest(Opcode::Max, x.end, y.end)};
    if (!x.end && !y.end) return RowBounds{tightest(Opcode::Min, x.first, y.first), {}};
    return std::nullopt;
  }
  Value tightest(Opcode o, Value x, Value y) { return !x ? y : !y ? x : b_.op(o, {x, y}); }

  std::optional<RowBounds> compared(OpId cmp) {
    const Value left = k_[cmp].operands[0], right = k_[cmp].operands[1];
    const std::string_view pred = k_[cmp].attrs.s(AttrName::pred);
    if (k_.type(left).dtype() != DType::i32 ||
        (pred != "lt" && pred != "le" && pred != "gt" && pred != "ge"))
      return std::nullopt;
    const auto x = side(left), y = x ? side(right) : std::nullopt;
    if (!x || !y || std::abs(x->sign - y->sign) != 1) return std::nullopt;
    // column + rest on one side, a limit on the other. A negative column is moved to the other
    // side.
    const bool column_left = x->sign - y->sign == 1;
    const Side& of_column = x->sign != 0 ? *x : *y;
    const Side& of_limit = x->sign != 0 ? *y : *x;
    if (of_column.rest && !of_column.is_position) return std::nullopt;
    ++comparisons_;
    const Value limit = of_column.sign == 1 ? difference(of_limit.rest, of_column.rest)
                                            : difference(of_column.rest, of_limit.rest);
    const bool below = (pred == "lt" || pred == "le") == column_left;
    const bool includes = pred == "le" || pred == "ge";
    // column < limit and column >= limit cut at the limit; column <= limit and column > limit cut
    // after it.
    const bool is_position = of_column.sign == 1 && !of_column.rest && of_limit.is_position;
    const Value cut = counted(limit, below == includes, is_position);
    return below ? RowBounds{{}, cut} : RowBounds{cut, {}};
  }

  Value difference(Value x, Value y) {
    const Type wide = Type::scalar(DType::i64);
    if (!y) return x ? x : b_.i32(0);
    const Value from = x ? b_.cast(x, DType::i64) : b_.constant(wide, std::int64_t{0});
    return b_.sub(from, b_.cast(y, DType::i64));
  }

  /// Returns the limit relative to the tile's first column, plus one if the cut is after it,
  /// clamped to 0 .. n. A position needs no clamping.
  Value counted(Value limit, bool cuts_after, bool is_position) {
    const std::int64_t n = type_.shape()[1], extra = cuts_after ? 1 : 0;
    const DType type = k_.type(limit).dtype();
    const Value base = first_ ? first_ : b_.i32(0);
    const auto number = [&](std::int64_t i) { return b_.constant(Type::scalar(DType::i32), i); };
    const auto as = [&](Value v) { return type == DType::i32 ? v : b_.cast(v, type); };
    const Value back = b_.sub(number(extra), base);
    if (is_position) return b_.add(limit, back);
    const Value low = b_.sub(base, number(extra));
    const Value high = b_.add(base, number(n - extra));
    const Value within = b_.op(Opcode::Min, {b_.op(Opcode::Max, {limit, as(low)}), as(high)});
    return b_.add(type == DType::i32 ? within : b_.cast(within, DType::i32), back);
  }

  // ---- operands ---------------------------------------------------------------------------------
  std::optional<Side> side(Value v) {
    const Type t = k_.type(v);
    if (t.is_scalar()) return Side{0, v};
    if (!t.is_tile() || t.rank() != 2) return std::nullopt;
    if (t.shape()[1] == 1) return row(v);
    if (t.shape()[0] == 1) return column(v);
    const OpId def = k_[v].def;
    if (!def) return std::nullopt;
    const std::vector<Value> operands(k_[def].operands.begin(), k_[def].operands.end());
    using enum Opcode;
    if (k_[def].opcode == Broadcast) return side(operands[0]);
    if (k_[def].opcode == Splat) return Side{0, operands[0]};
    if (k_[def].opcode != Sub) return std::nullopt;
    // Match the difference of two positions.
    const auto x = side(operands[0]), y = x ? side(operands[1]) : std::nullopt;
    if (!x || !y || x->sign + y->sign != 1 || (x->rest && y->rest)) return std::nullopt;
    const Side& other = x->rest ? *x : *y;
    if (!other.rest || !other.is_position) return std::nullopt;
    if (x->rest) return Side{-1, x->rest, true};
    return Side{1, b_.op(Opcode::Neg, {y->rest}), true};
  }

  /// Accepts a row operand. With wgmma, a loaded row has the layout of accumulators. On other
  /// targets it would be converted before the loop, and values computed from it in a loop would be
  /// converted there.
  std::optional<Side> row(Value v) {
    const bool is_position = iota_of(b_, v).has_value();
    if (!is_position && !rows_have_accumulator_layout_) return std::nullopt;
    return Side{0, v, is_position};
  }

  /// Accepts a column operand. All comparisons of a condition must use the same columns.
  std::optional<Side> column(Value v) {
    if (v == columns_) return Side{1, {}};
    const auto i = iota_of(b_, v);
    if (!i || i->step != 1) return std::nullopt;
    const Value start = i->base && i->start != 0 ? b_.add(i->base, b_.i32(i->start))
                        : i->base                ? i->base
                                                 : b_.i32(i->start);
    if (columns_) return std::nullopt;
    columns_ = v;
    first_ = start;
    return Side{1, {}};
  }

  // ---- results
  Value written(const RowBounds& l) {
    const std::int64_t n = type_.shape()[1];
    const Value line =
        b_.op(Opcode::ExpandDims, {index_line(b_, DType::i32, n)}, {{AttrName::axis, 0}});
    const bool two_sided =
        l.first && l.end && k_.type(l.first).is_tile() && k_.type(l.end).is_tile();
    if (two_sided) return between(line, l);
    Value condition;
    for (const auto& [limit, pred] : {std::pair{l.end, "lt"}, std::pair{l.first, "ge"}})
      if (limit) condition = ir::both(b_, condition, compared_with(line, limit, pred));
    return condition;
  }

  /// Uses one comparison: as an unsigned number, a column before the first one is after the last.
  Value between(Value line, const RowBounds& l) {
    const Type numbers = type_.with_elem({DType::i32, false});
    const Value count = b_.sub(b_.op(Opcode::Max, {l.end, l.first}), l.first);
    const Value distance = b_.sub(b_.op(Opcode::Broadcast, {line}, numbers),
                                  b_.op(Opcode::Broadcast, {l.first}, numbers));
    const Value end = b_.cast(count, DType::u32);
    return b_.cmp("lt", b_.cast(distance, DType::u32),
                  b_.op(Opcode::Broadcast, {end}, type_.with_elem({DType::u32, false})));
  }

  /// Compares a bound that all rows share only once.
  Value compared_with(Value line, Value limit, std::string_view pred) {
    if (k_.type(limit).is_scalar())
      return b_.op(Opcode::Broadcast, {b_.cmp(pred, line, limit)}, type_);
    const Type numbers = type_.with_elem({DType::i32, false});
    return b_.cmp(pred, b_.op(Opcode::Broadcast, {line}, numbers),
                  b_.op(Opcode::Broadcast, {limit}, numbers));
  }

  Kernel& k_;
  Builder b_;
  bool rows_have_accumulator_layout_;
  Type type_;
  std::optional<Value> columns_;  ///< of the condition; `first_` is the first of them
  Value first_;
  int comparisons_ = 0;
};

}  // namespace

bool masks_to_row_bounds(Kernel& kernel, PassContext&) { return MasksToRowBounds(kernel).run(); }

}  // namespace tegula::ir
