// Interval and congruence arithmetic.
#include "ir/analysis/mask/domain.h"

#include <algorithm>
#include <numeric>

#include "ir/analysis/mask/interval_rules.h"

namespace tegula::ir {
namespace {

constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

/// Returns a mod m in [0, m). Requires m > 0.
std::int64_t positive_rem(std::int64_t a, std::int64_t m) {
  const std::int64_t r = a % m;
  return r < 0 ? r + m : r;
}

std::int64_t gcd(std::int64_t a, std::int64_t b) { return std::gcd(a, b); }

/// Returns the congruence of a modulus and a residue, which are absent if they overflowed.
Congruence normal(std::optional<std::int64_t> modulus, std::optional<std::int64_t> residue) {
  if (!modulus || !residue || *modulus == kMin) return {};
  const std::int64_t m = *modulus < 0 ? -*modulus : *modulus;
  return m == 0 ? Congruence::point(*residue) : Congruence{m, positive_rem(*residue, m)};
}

}  // namespace

Interval Interval::of(DType d) {
  if (is_bool(d)) return {0, 1};
  if (!is_integer(d) || size_bits(d) == 64) return {};
  const int bits = size_bits(d);
  if (!is_signed(d)) return {0, (std::int64_t{1} << bits) - 1};
  return {-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
}

std::optional<Interval> add(Interval a, Interval b) {
  return fitted(interval_rules::sum(wide(a), wide(b)));
}
std::optional<Interval> scale(Interval a, std::int64_t factor) {
  return mul(a, Interval::point(factor));
}
std::optional<Interval> mul(Interval a, Interval b) {
  return fitted(interval_rules::product(wide(a), wide(b)));
}
Interval hull(Interval a, Interval b) { return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)}; }
Interval meet(Interval a, Interval b) {
  const Interval both{std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
  return both.lo <= both.hi ? both : a;
}

bool Congruence::allows(std::int64_t v) const {
  return modulus == 0 ? v == residue : positive_rem(v, modulus) == residue;
}
Congruence Congruence::coarser(std::int64_t divisor) const {
  return {divisor, positive_rem(residue, divisor)};
}

Congruence add(Congruence a, Congruence b) {
  return normal(gcd(a.modulus, b.modulus), checked_add(a.residue, b.residue));
}
Congruence scale(Congruence a, std::int64_t factor) {
  return normal(checked_mul(a.modulus, factor), checked_mul(a.residue, factor));
}
Congruence mul(Congruence a, Congruence b) {
  const auto mm = checked_mul(a.modulus, b.modulus), mr = checked_mul(a.modulus, b.residue),
             rm = checked_mul(a.residue, b.modulus);
  if (!mm || !mr || !rm || *mm == kMin || *mr == kMin || *rm == kMin) return {};
  return normal(gcd(*mm, gcd(*mr, *rm)), checked_mul(a.residue, b.residue));
}
Congruence join(Congruence a, Congruence b) {
  const auto apart = b.residue == kMin ? std::nullopt : checked_add(a.residue, -b.residue);
  if (!apart || *apart == kMin) return {};
  return normal(gcd(gcd(a.modulus, b.modulus), *apart), a.residue);
}
Congruence stronger(Congruence a, Congruence b) {
  if (a.modulus == 0 || b.modulus == 0) return a.modulus == 0 ? a : b;
  return a.modulus >= b.modulus ? a : b;
}
Interval tighten(Interval range, Congruence c) {
  if (c.modulus == 0) return meet(range, Interval::point(c.residue));
  if (c.modulus == 1) return range;
  const auto lo =
      checked_add(range.lo, positive_rem(c.residue - positive_rem(range.lo, c.modulus), c.modulus));
  const auto hi = checked_add(
      range.hi, -positive_rem(positive_rem(range.hi, c.modulus) - c.residue, c.modulus));
  return lo && hi && *lo <= *hi ? Interval{*lo, *hi} : range;
}

}  // namespace tegula::ir
