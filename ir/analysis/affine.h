#pragma once
// Affine forms: sums of symbols times factors. All arithmetic is on mathematical integers; if a
// result exceeds 64 bits, the functions return nothing and never wrap.
#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>

namespace tegula::ir {

inline std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::nullopt : std::optional(sum);
}
inline std::optional<std::int64_t> checked_mul(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::nullopt : std::optional(product);
}

/// constant + sum of factor * symbol, of at most `max_terms` symbols.
template <class Symbol, int max_terms>
struct Affine {
  struct Term {
    Symbol symbol;
    std::int64_t factor;
    friend bool operator==(Term, Term) = default;
  };
  std::int64_t constant = 0;
  std::array<Term, max_terms> terms{};  ///< in ascending order of symbols, no factor is 0
  int count = 0;

  static Affine symbol(Symbol s, std::int64_t factor = 1) {
    Affine form;
    form.terms[0] = {s, factor};
    form.count = factor != 0;
    return form;
  }
  static Affine number(std::int64_t v) {
    Affine form;
    form.constant = v;
    return form;
  }
  const Term* begin() const { return terms.data(); }
  const Term* end() const { return terms.data() + count; }
  bool is_number() const { return count == 0; }
  /// Returns the factor of a symbol; 0 if the form does not have it.
  std::int64_t factor_of(Symbol s) const {
    const Term* t = std::ranges::find(begin(), end(), s, &Term::symbol);
    return t == end() ? 0 : t->factor;
  }
  /// Returns true if every factor and the constant are multiples of `d`.
  bool is_divisible(std::int64_t d) const {
    return constant % d == 0 &&
           std::all_of(begin(), end(), [&](const Term& t) { return t.factor % d == 0; });
  }
};

/// Returns a + factor * b, or nothing if it overflows or has too many terms. Every factor of the
/// result can be negated.
template <class Symbol, int max_terms>
std::optional<Affine<Symbol, max_terms>> add(const Affine<Symbol, max_terms>& a,
                                             const Affine<Symbol, max_terms>& b,
                                             std::int64_t factor = 1) {
  Affine<Symbol, max_terms> sum;
  const auto constant = checked_mul(b.constant, factor);
  const auto total = constant ? checked_add(a.constant, *constant) : std::nullopt;
  if (!total) return std::nullopt;
  sum.constant = *total;
  const auto *x = a.begin(), *y = b.begin();
  while (x != a.end() || y != b.end()) {
    const bool has_x = x != a.end() && (y == b.end() || x->symbol <= y->symbol);
    const bool has_y = y != b.end() && (x == a.end() || y->symbol <= x->symbol);
    const Symbol symbol = has_x ? x->symbol : y->symbol;
    const auto of_y = has_y ? checked_mul(y->factor, factor) : std::optional<std::int64_t>(0);
    const auto both = of_y ? checked_add(has_x ? x->factor : 0, *of_y) : std::nullopt;
    if (!both || *both == std::numeric_limits<std::int64_t>::min()) return std::nullopt;
    x += has_x;
    y += has_y;
    if (*both == 0) continue;
    if (sum.count == max_terms) return std::nullopt;
    sum.terms[static_cast<std::size_t>(sum.count++)] = {symbol, *both};
  }
  return sum;
}

/// Returns the form divided by `d`, which must divide it.
template <class Symbol, int max_terms>
Affine<Symbol, max_terms> divide_exactly(Affine<Symbol, max_terms> form, std::int64_t d) {
  form.constant /= d;
  for (int i = 0; i < form.count; ++i) form.terms[static_cast<std::size_t>(i)].factor /= d;
  return form;
}

}  // namespace tegula::ir
