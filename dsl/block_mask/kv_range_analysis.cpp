// Computes the ends of key ranges by evaluating linear forms of q at a tile's first and last row.
#include "dsl/block_mask/kv_range_analysis.h"

#include <utility>

#include "dsl/block_mask/kv_interval.h"
#include "dsl/block_mask/mask_overflow.h"
#include "dsl/signature.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

using ir::Interval;
using ir::kMaskPositions;
using ir::Linear;
using ir::MaskFormula;
using ir::SolvedConditions;
using Limit = SolvedConditions::Limit;

static_assert(kMaskPositions.hi == dsl::kSmallSpan + 1024);

/// Like ir::KvVisibility, but with a single interval of visible keys and one of full keys; an
/// absent interval contains no key.
struct Cover {
  std::optional<KvInterval> visible, full;
};
const Cover kUnknown{KvInterval{}, std::nullopt};

/// Like Cover, but with several disjoint intervals, so that keys in the gaps are skipped.
struct KvIntervals {
  std::vector<KvInterval> visible, full;
};

/// Records the ends of ranges for one tile of queries.
class Recorder {
 public:
  Recorder(const ir::MaskClosedForm& form, const SolvedConditions& limits, const MaskFunction& mask,
           Tile first, Tile last, Tile seqlen_kv)
      : form_(form),
        limits_(limits),
        mask_(mask),
        first_(std::move(first)),
        last_(std::move(last)),
        length_(std::move(seqlen_kv)) {}

  Cover cover() const { return fold(form_.formula, Covers{*this}); }
  /// Returns the disjoint intervals of a mask whose conditions are all solved for kv, or nothing if
  /// the mask has a single interval or an unsolved condition.
  std::optional<KvIntervals> parts() const {
    const auto count = limits_.intervals();
    return count && *count > 1 ? std::optional(fold(form_.formula, AllParts{*this})) : std::nullopt;
  }

 private:
  struct Covers {
    const Recorder& of;

    Cover leaf(const MaskFormula& f) const { return of.leaf(f); }
    static Cover constant(bool all) { return all ? Cover{KvInterval{}, KvInterval{}} : Cover{}; }
    static Cover both(const Cover& a, const Cover& b) {
      return {of_both(a.visible, b.visible, intersect), of_both(a.full, b.full, intersect)};
    }
    static Cover either(const Cover& a, const Cover& b) {
      return {of_either(a.visible, b.visible, hull), of_either(a.full, b.full, inner_hull)};
    }
  };
  struct AllParts {
    const Recorder& of;

    KvIntervals leaf(const MaskFormula& f) const {
      const Cover c = of.leaf(f);
      KvIntervals one;
      if (c.visible) one.visible.push_back(*c.visible);
      if (c.full) one.full.push_back(*c.full);
      return one;
    }
    static KvIntervals constant(bool all) {
      return all ? KvIntervals{{KvInterval{}}, {KvInterval{}}} : KvIntervals{};
    }
    static KvIntervals both(const KvIntervals& a, const KvIntervals& b) {
      return {ir::intersection(a.visible, b.visible), ir::intersection(a.full, b.full)};
    }
    static KvIntervals either(const KvIntervals& a, const KvIntervals& b) {
      return {ir::united(a.visible, b.visible), ir::united(a.full, b.full)};
    }
  };

  Cover leaf(const MaskFormula& f) const {
    if (f.kind == MaskFormula::Kind::Condition) return of(form_.conditions[f.index]);
    return limits_.is_of_rows(f) ? of_rows(f) : decided(limits_.truth_of_opaque(f));
  }
  Cover of(const ir::MaskCondition& c) const {
    const SolvedConditions::Solution solution = limits_.solve(c);
    if (solution.truth) return decided(*solution.truth);
    if (!solution.limit) return kUnknown;
    const auto fits = stays_in_type(solution.overflow_checks);
    const Limit& limit = *solution.limit;
    auto some = extreme(limit, limit.is_upper), every = extreme(limit, !limit.is_upper);
    if (!some || !every) return kUnknown;
    if (fits) {
      // If a node overflows, all keys may be visible, and no key is known to be visible to all
      // rows.
      const Tile none = full<i32>(0);
      *some = chosen(*fits, *some, limit.is_upper ? length_ : none);
      *every = chosen(*fits, *every, limit.is_upper ? none : length_);
    }
    return {span(limit, *some), span(limit, *every)};
  }
  /// Returns all keys or none, depending on the condition at the first and the last row.
  Cover of_rows(const MaskFormula& f) const {
    const ir::MaskNode& n = limits_.node(f.index);
    const auto holds = [&](const Tile& row) {
      const Tile a = at_row(n.in[0], row), b = at_row(n.in[1], row);
      const Tile is = n.pred == ir::MaskPred::Lt ? a < b : a <= b;
      return f.negated ? !is : is;
    };
    const Tile first = holds(first_), last = holds(last_);
    Tile some = first || last, every = first && last;
    if (const auto fits = stays_in_type(limits_.wrapping(f.index))) {
      some = some || !*fits;
      every = every && *fits;
    }
    const auto keys = [&](const Tile& condition) {
      return KvInterval{std::nullopt,
                        RecordedBound{where(condition, length_, full<i32>(0)), kMaskPositions}};
    };
    return {keys(some), keys(every)};
  }
  /// Returns the condition that no node overflows, or nothing if there are no nodes to check.
  std::optional<Tile> stays_in_type(const std::vector<ir::MaskNodeId>& nodes) const {
    if (nodes.empty()) return std::nullopt;
    return MaskOverflow(limits_, mask_, first_, last_, length_).no_overflow(nodes);
  }
  static RecordedBound chosen(const Tile& condition, const RecordedBound& a,
                              const Tile& otherwise) {
    return {where(condition, a.tile, otherwise), hull(a.range, kMaskPositions)};
  }
  /// Returns the ranges of a condition that is not solved for kv. `truth` bounds its value (0 or 1)
  /// over all positions.
  static Cover decided(Interval truth) {
    if (truth.hi == 0) return {};
    return {KvInterval{}, truth.lo == 1 ? std::optional(KvInterval{}) : std::nullopt};
  }

  /// Returns the value of a symbol at a row. Symbols do not decrease with q.
  Tile at_row(ir::MaskNodeId id, const Tile& row) const {
    const ir::MaskNode& n = limits_.node(id);
    if (n.kind == ir::MaskNode::Kind::Query) return row;
    if (n.kind == ir::MaskNode::Kind::Const) return full<i32>(static_cast<i32>(n.value));
    if (limits_.is_scalar(id)) return mask_.scalar(n);
    const Tile a = at_row(n.in[0], row);
    if (!n.is_op(ir::Opcode::Div)) {
      const Tile b = at_row(n.in[1], row);
      return n.is_op(ir::Opcode::Add) ? a + b : a - b;
    }
    // If the Scalar is not positive, the quotient is not used.
    const ir::MaskNode& by = limits_.node(n.in[1]);
    if (limits_.is_scalar(n.in[1])) return a / max(mask_.scalar(by), full<i32>(1));
    return a / by.value;
  }
  /// Returns the value of a symbol at the first or the last row: its minimum or its maximum.
  RecordedBound symbol(ir::MaskNodeId id, bool at_last) const {
    return {at_row(id, at_last ? last_ : first_), limits_.range_of_symbol(id)};
  }

  std::vector<RecordedBound> symbols(const Linear& form, bool largest) const {
    std::vector<RecordedBound> of;
    for (const Linear::Term t : form) of.push_back(symbol(t.symbol, (t.factor > 0) == largest));
    return of;
  }
  Tile wide_extreme(const Linear& form, bool largest) const {
    return total<i64>(form, symbols(form, largest));
  }

  /// Returns the largest or smallest value of a limit over the tile's rows.
  std::optional<RecordedBound> extreme(const Limit& limit, bool largest) const {
    const Linear& form = limit.form;
    const std::vector<RecordedBound> values = symbols(form, largest);
    const Interval narrow = Interval::of(DType::i32);
    Interval sum = Interval::point(0);
    bool fits = true;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t factor = form.terms[i].factor;
      const auto term = scale(values[i].range, factor);
      const auto next = term ? add(sum, *term) : std::nullopt;
      if (!next) return std::nullopt;
      // The factor must fit, too: the product is computed in this type.
      fits = fits && Interval::point(factor).is_within(narrow) && term->is_within(narrow) &&
             next->is_within(narrow);
      sum = *next;
    }
    const auto whole = add(sum, Interval::point(form.constant));
    if (!whole) return std::nullopt;
    fits = fits && Interval::point(form.constant).is_within(narrow) && whole->is_within(narrow);
    if (limit.of) return clamped(multiplied(total<i64>(form, values), *limit.of));
    return fits ? RecordedBound{total<i32>(form, values), *whole}
                : clamped(total<i64>(form, values));
  }
  template <class T>
  static Tile total(const Linear& form, const std::vector<RecordedBound>& symbols) {
    std::optional<Tile> sum;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
      const std::int64_t factor = form.terms[i].factor;
      const Tile value = cast<T>(symbols[i].tile);
      const Tile term = factor == 1 ? value : value * static_cast<T>(factor);
      sum = sum ? *sum + term : term;
    }
    if (!sum) return full<T>(static_cast<T>(form.constant));
    return form.constant == 0 ? *sum : *sum + static_cast<T>(form.constant);
  }
  /// Returns the smallest kv for which the truncated quotient (kv + offset) / n is at least y. Its
  /// dividend is n * y for positive y; for other y it is n - 1 less, because truncation rounds
  /// towards 0. Without an offset the dividend is never negative, and n * y suffices. If n is not
  /// positive, the result is not used.
  Tile multiplied(const Tile& y, const SolvedConditions::Quotient& of) const {
    const Tile n = cast<i64>(at_row(of.by, first_));
    // Quotients have 32 bits, so these multiples do not overflow.
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    const Tile small = min(max(y, Tile(-kMost)), Tile(kMost));
    if (of.offset.count == 0 && of.offset.constant == 0) return small * n;
    const Tile before = where(small >= 1, Tile(std::int64_t{0}), n - 1);
    return small * n - before - wide_extreme(of.offset, false);
  }
  /// Returns the end clamped to [0, seqlen_kv], as i32.
  RecordedBound clamped(const Tile& wide) const {
    return {cast<i32>(min(max(wide, Tile(i64{0})), cast<i64>(length_))), kMaskPositions};
  }
  static KvInterval span(const Limit& limit, const RecordedBound& end) {
    if (limit.is_upper) return {std::nullopt, end};
    return end.range.hi <= 0 ? KvInterval{} : KvInterval{end, std::nullopt};
  }

  const ir::MaskClosedForm& form_;
  const SolvedConditions& limits_;
  const MaskFunction& mask_;
  Tile first_, last_, length_;
};

}  // namespace

KvRanges KvRangeAnalysis::record(const Tile& first, const Tile& last, const Tile& seqlen_kv) const {
  // With wider indices the mask's arithmetic differs from the traced one.
  if (first.dtype() != DType::i32 || seqlen_kv.dtype() != DType::i32) return {};
  const Recorder recorder(form_, limits_, mask_, first, last, seqlen_kv);
  const Cover cover = recorder.cover();
  const auto full_range = [&](const KvInterval& s) {
    return KvRange{s.lo ? s.lo->tile : full<i32>(0), s.hi ? s.hi->tile : seqlen_kv};
  };
  KvRanges keys;
  if (!cover.visible)
    keys.visible = KvRange{full<i32>(0), full<i32>(0)};
  else if (cover.visible->lo || cover.visible->hi)
    keys.visible = clamp_to_range(*cover.visible, seqlen_kv);
  if (cover.full) keys.full = full_range(*cover.full);
  if (const auto parts = recorder.parts()) {
    for (const KvInterval& s : parts->visible)
      keys.visible_intervals.push_back(clamp_to_range(s, seqlen_kv));
    for (const KvInterval& s : parts->full) keys.full_intervals.push_back(full_range(s));
  }
  return keys;
}

}  // namespace tegula
