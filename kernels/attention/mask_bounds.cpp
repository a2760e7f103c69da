// Ends of key ranges: linear forms of q at the first and the last row of a tile.
#include "kernels/attention/mask_bounds.h"

#include <algorithm>
#include <utility>

#include "kernels/attention/mask_limits.h"
#include "kernels/attention/mask_trace.h"
#include "kernels/attention/mask_wrap.h"
#include "tegula/tegula.h"

namespace tegula {
namespace {

using ir::Interval;
using ir::Linear;
using ir::MaskFormula;
using Limit = MaskLimits::Limit;

/// A number of the kernel (i32), and what is known of it now.
struct End {
  Tile tile;
  Interval range;
};
End larger(const End& a, const End& b) {
  if (a.range.lo >= b.range.hi) return a;
  if (b.range.lo >= a.range.hi) return b;
  return {max(a.tile, b.tile),
          {std::max(a.range.lo, b.range.lo), std::max(a.range.hi, b.range.hi)}};
}
End smaller(const End& a, const End& b) {
  if (a.range.hi <= b.range.lo) return a;
  if (b.range.hi <= a.range.lo) return b;
  return {min(a.tile, b.tile),
          {std::min(a.range.lo, b.range.lo), std::min(a.range.hi, b.range.hi)}};
}

/// kv in [lo, hi); an end that is absent is that of all keys. Nothing where lo >= hi.
struct Span {
  std::optional<End> lo, hi;
};

template <class Fn>
std::optional<End> of_both(const std::optional<End>& a, const std::optional<End>& b, Fn pick) {
  return a && b ? std::optional(pick(*a, *b)) : std::nullopt;
}
template <class Fn>
std::optional<End> of_either(const std::optional<End>& a, const std::optional<End>& b, Fn pick) {
  return a && b ? std::optional(pick(*a, *b)) : a ? a : b;
}
Span meet(const Span& a, const Span& b) {
  return {of_either(a.lo, b.lo, larger), of_either(a.hi, b.hi, smaller)};
}
/// Around both, what lies between them included.
Span around(const Span& a, const Span& b) {
  return {of_both(a.lo, b.lo, smaller), of_both(a.hi, b.hi, larger)};
}
/// Part of what one of them holds: all of it where they share an end, else one of the two.
Span within_either(const Span& a, const Span& b) {
  const bool share_end = (!a.lo && !b.lo) || (!a.hi && !b.hi);
  if (share_end) return around(a, b);
  return a.hi && !b.hi ? b : a;
}

/// As ir::KvCover, with one interval each; absent: no key.
struct Cover {
  std::optional<Span> visible, full;
};
const Cover kUnknown{Span{}, std::nullopt};

/// The same without gaps filled in.
struct Parts {
  std::vector<Span> visible, full;
};

/// Records the ends for one tile of queries.
class Recorder {
 public:
  Recorder(const ir::MaskClosedForm& form, const MaskLimits::Numbers& numbers, Tile first,
           Tile last, Tile kv_length)
      : form_(form),
        limits_(form, numbers),
        first_(std::move(first)),
        last_(std::move(last)),
        length_(std::move(kv_length)) {}

  Cover run() { return of(form_.formula); }
  /// Where all conditions are solved, and what is visible may have gaps.
  std::optional<Parts> run_parts() {
    const auto count = limits_.intervals();
    return count && *count > 1 ? std::optional(parts(form_.formula)) : std::nullopt;
  }

 private:
  Parts parts(const MaskFormula& f) {
    const bool is_leaf =
        f.kind == MaskFormula::Kind::Condition || f.kind == MaskFormula::Kind::Opaque;
    if (is_leaf) {
      const Cover c = of(f);
      Parts one;
      if (c.visible) one.visible.push_back(*c.visible);
      if (c.full) one.full.push_back(*c.full);
      return one;
    }
    const bool all = f.kind == MaskFormula::Kind::All;
    Parts sum;
    if (all) sum = {{Span{}}, {Span{}}};
    for (const MaskFormula& part : f.parts) {
      const Parts p = parts(part);
      sum.visible = all ? intersection(sum.visible, p.visible) : united(sum.visible, p.visible);
      sum.full = all ? intersection(sum.full, p.full) : united(sum.full, p.full);
    }
    return sum;
  }

  Cover of(const MaskFormula& f) {
    if (f.kind == MaskFormula::Kind::Condition) return of(form_.conditions[f.index]);
    if (f.kind == MaskFormula::Kind::Opaque) return decided(limits_.truth_of_opaque(f));
    const bool all = f.kind == MaskFormula::Kind::All;
    Cover sum;
    if (all) sum = {Span{}, Span{}};
    for (const MaskFormula& part : f.parts) {
      const Cover c = of(part);
      sum.visible = all ? both(sum.visible, c.visible, meet) : any(sum.visible, c.visible, around);
      sum.full = all ? both(sum.full, c.full, meet) : any(sum.full, c.full, within_either);
    }
    return sum;
  }
  using Combine = Span (*)(const Span&, const Span&);
  static std::optional<Span> both(const std::optional<Span>& a, const std::optional<Span>& b,
                                  Combine f) {
    return a && b ? std::optional(f(*a, *b)) : std::nullopt;
  }
  static std::optional<Span> any(const std::optional<Span>& a, const std::optional<Span>& b,
                                 Combine f) {
    return a && b ? std::optional(f(*a, *b)) : a ? a : b;
  }

  Cover of(const ir::MaskCondition& c) {
    const MaskLimits::Solution solution = limits_.solve(c);
    if (solution.truth) return decided(*solution.truth);
    if (!solution.limit) return kUnknown;
    const Limit& limit = *solution.limit;
    auto some = extreme(limit, limit.is_upper), every = extreme(limit, !limit.is_upper);
    if (!some || !every) return kUnknown;
    if (!solution.if_fits.empty()) {
      // Else all keys are visible, and no row is known to see one.
      const Tile fits = MaskWrap(limits_, first_, last_, length_).never(solution.if_fits);
      const Tile none = full<i32>(0);
      *some = chosen(fits, *some, limit.is_upper ? length_ : none);
      *every = chosen(fits, *every, limit.is_upper ? none : length_);
    }
    return {span(limit, *some), span(limit, *every)};
  }
  static End chosen(const Tile& condition, const End& a, const Tile& otherwise) {
    return {where(condition, a.tile, otherwise), hull(a.range, kMaskPositions)};
  }
  /// Of what is not solved for kv; the bounds of its truth are those over all positions.
  static Cover decided(Interval truth) {
    if (truth.hi == 0) return {};
    return {Span{}, truth.lo == 1 ? std::optional(Span{}) : std::nullopt};
  }

  /// The value of a symbol at the first row, or at the last: it does not fall from row to row.
  End symbol(ir::MaskNodeId id, bool at_last) const {
    const Tile& row = at_last ? last_ : first_;
    if (const auto cell = limits_.number(id))
      return {detail::captured_scalar(cell, {}), Interval::of(DType::i32)};
    const auto by = limits_.query_divisor(id);
    if (!by) return {row, kMaskPositions};
    if (const auto cell = limits_.number(*by))
      return {row / max(detail::captured_scalar(cell, {}), full<i32>(1)), kMaskPositions};
    const std::int64_t n = limits_.node(*by).value;
    return {row / n, {0, kMaskPositions.hi / n}};
  }

  /// The largest or smallest value of a limit over the tile's rows.
  std::optional<End> extreme(const Limit& limit, bool largest) const {
    const Linear& form = limit.form;
    std::vector<End> symbols;
    const Interval narrow = Interval::of(DType::i32);
    Interval sum = Interval::point(0);
    bool fits = true;
    for (const Linear::Term t : form) {
      const End value = symbol(t.symbol, (t.factor > 0) == largest);
      const auto term = scale(value.range, t.factor);
      const auto next = term ? add(sum, *term) : std::nullopt;
      if (!next) return std::nullopt;
      // Factors are multiplied by in the same type.
      fits = fits && Interval::point(t.factor).is_within(narrow) && term->is_within(narrow) &&
             next->is_within(narrow);
      symbols.push_back(value);
      sum = *next;
    }
    const auto whole = add(sum, Interval::point(form.constant));
    if (!whole) return std::nullopt;
    fits = fits && Interval::point(form.constant).is_within(narrow) && whole->is_within(narrow);
    if (limit.times) return clamped(multiplied(total<i64>(form, symbols), *limit.times));
    return fits ? End{total<i32>(form, symbols), *whole} : clamped(total<i64>(form, symbols));
  }
  template <class T>
  static Tile total(const Linear& form, const std::vector<End>& symbols) {
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
  /// By a Scalar that is positive, or the product is not used. Quotients behind all keys' are as
  /// good as the next, and then the product fits.
  Tile multiplied(const Tile& quotient, ir::MaskNodeId by) const {
    const Tile small =
        min(max(quotient, Tile(std::int64_t{-1})), Tile(std::int64_t{kMaskPositions.hi}));
    return small * cast<i64>(detail::captured_scalar(limits_.number(by), {}));
  }
  /// Ends outside of the keys are as good as the first and the last one.
  End clamped(const Tile& wide) const {
    return {cast<i32>(min(max(wide, Tile(i64{0})), cast<i64>(length_))), kMaskPositions};
  }
  static Span span(const Limit& limit, const End& end) {
    if (limit.is_upper) return {std::nullopt, end};
    return end.range.hi <= 0 ? Span{} : Span{end, std::nullopt};
  }

  const ir::MaskClosedForm& form_;
  MaskLimits limits_;
  Tile first_, last_, length_;
};

/// The range for the loop over keys: inside of [0, length], and its ends in order.
KvRange clip(const Span& s, const Tile& length) {
  if (!s.lo) {
    const End hi = s.hi ? larger(*s.hi, {full<i32>(0), Interval::point(0)}) : End{length, {}};
    return {full<i32>(0), min(hi.tile, length)};
  }
  const End positive = larger(*s.lo, {full<i32>(0), Interval::point(0)});
  const Tile lo = min(positive.tile, length);
  return {lo, s.hi ? max(min(s.hi->tile, length), lo) : length};
}

}  // namespace

MaskBounds::MaskBounds(const Mask& mask) {
  try {
    MaskSource source = trace_mask_source(mask);
    form_ = ir::solve_mask(source.expr);
    numbers_ = std::move(source.numbers);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // The mask wants tiles, or is wrong: the kernel's own use of it tells.
  }
}

MaskedKeys MaskBounds::record(const Tile& first, const Tile& last, const Tile& kv_length) const {
  // With wider indices the mask's arithmetic is not what was traced.
  const bool narrow = first.dtype() == DType::i32 && kv_length.dtype() == DType::i32;
  if (!form_ || !narrow) return {};
  Recorder recorder(*form_, numbers_, first, last, kv_length);
  const Cover cover = recorder.run();
  const auto full_range = [&](const Span& s) {
    return KvRange{s.lo ? s.lo->tile : full<i32>(0), s.hi ? s.hi->tile : kv_length};
  };
  MaskedKeys keys;
  if (!cover.visible)
    keys.visible = KvRange{full<i32>(0), full<i32>(0)};
  else if (cover.visible->lo || cover.visible->hi)
    keys.visible = clip(*cover.visible, kv_length);
  if (cover.full) keys.full = full_range(*cover.full);
  if (const auto parts = recorder.run_parts()) {
    for (const Span& s : parts->visible) keys.visible_parts.push_back(clip(s, kv_length));
    for (const Span& s : parts->full) keys.full_parts.push_back(full_range(s));
  }
  return keys;
}

}  // namespace tegula
