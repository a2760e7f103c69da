// Scalar semantics of arithmetic, bit operations, comparison and selection.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/eval/scalar.h"

namespace tegula::ir {

void refuse_elem(std::string_view op, Elem elem) {
  throw InternalError(std::string(op) + " has no meaning on elements of type " +
                      std::string(elem.pointer ? "ptr" : name(elem.dtype)));
}

namespace {

/// Returns the quotient or remainder of two integers of one type. Requires a nonzero divisor.
template <class T, bool kRemainder>
T divide(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    // min / -1 wraps to min with remainder 0. It is handled separately because the host's
    // instruction traps.
    if (b == T(-1)) return kRemainder ? T(0) : wrap<T>(-static_cast<std::uint64_t>(a));
  }
  return static_cast<T>(kRemainder ? a % b : a / b);
}

template <bool kRemainder>
void divide_integers(const ElementwiseCall& c) {
  for_integer(kRemainder ? "rem" : "div", c.out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Cell *a = c.operands[0], *b = c.operands[1];
    for (std::size_t i = 0; i < c.count; ++i) {
      const T divisor = take<T>(b[i * c.strides[1]]);
      if (divisor == T(0)) {
        c.result[i] = int_cell(0);
        if (c.poison != nullptr) c.poison[i] = 1;
        continue;
      }
      c.result[i] = give<T>(divide<T, kRemainder>(take<T>(a[i * c.strides[0]]), divisor));
    }
  });
}

template <class F>
void map_extreme(const ElementwiseCall& c, F f) {
  const bool propagate = c.attrs.s(AttrName::nan, "ignore") == "propagate";
  visit_dtype(held_as(c.out), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_cells<2>(c, [&](Cell a, Cell b) { return give<T>(f(take<T>(a), take<T>(b), propagate)); });
  });
}

template <class F>
void map_bits(std::string_view op, const ElementwiseCall& c, F f) {
  for_integer(op, c.out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_cells<2>(c, [&](Cell a, Cell b) {
      return give<T>(wrap<T>(f(static_cast<std::uint64_t>(a.i), static_cast<std::uint64_t>(b.i))));
    });
  });
}

/// The outcomes of comparing two elements for which the predicate is true.
struct Predicate {
  std::string_view name, sign;
  bool less, equal, greater, unordered;
};
constexpr std::array kPredicates{
    Predicate{"eq", "==", false, true, false, false},
    Predicate{"ne", "!=", true, false, true, true},
    Predicate{"lt", "<", true, false, false, false},
    Predicate{"le", "<=", true, true, false, false},
    Predicate{"gt", ">", false, false, true, false},
    Predicate{"ge", ">=", false, true, true, false},
};

Predicate predicate_of(std::string_view name) {
  const auto* found = std::find_if(kPredicates.begin(), kPredicates.end(),
                                   [&](const Predicate& p) { return p.name == name; });
  if (found == kPredicates.end())
    throw InternalError("cmp: unknown predicate '" + std::string(name) + "'");
  return *found;
}

template <class T>
inline constexpr int kWidth = std::is_same_v<T, bool> ? 1 : static_cast<int>(sizeof(T)) * 8;

/// Computes fma of f16 with the result of the hardware, which rounds once. In double the product is
/// exact, and the rounding of the sum is far below the last bit of an f16, so that a second
/// rounding has no effect.
void fma_of_halves(const ElementwiseCall& c) {
  map_cells<3>(
      c, [](Cell a, Cell b, Cell d) { return float_cell(rounded<f16>(std::fma(a.f, b.f, d.f))); });
}

}  // namespace

std::string comparison(std::string_view pred, DType dtype, Cell a, Cell b) {
  const auto number = [&](Cell c) {
    return is_float(dtype)    ? fmt::format("{}", c.f)
           : is_signed(dtype) ? fmt::format("{}", c.i)
                              : fmt::format("{}", static_cast<std::uint64_t>(c.i));
  };
  return fmt::format("{} {} {}", number(a), predicate_of(pred).sign, number(b));
}

void scalar_Add(const ElementwiseCall& c) {
  map_numbers<2>(c, [](auto a, auto b) { return a + b; });
}
void scalar_Sub(const ElementwiseCall& c) {
  map_numbers<2>(c, [](auto a, auto b) { return a - b; });
}
void scalar_Mul(const ElementwiseCall& c) {
  map_numbers<2>(c, [](auto a, auto b) { return a * b; });
}

void scalar_Fma(const ElementwiseCall& c) {
  if (held_as(c.out) == DType::f16) return fma_of_halves(c);
  map_numbers<3>(c, [](auto a, auto b, auto d) {
    if constexpr (std::is_floating_point_v<decltype(a)>)
      return std::fma(a, b, d);
    else
      return a * b + d;
  });
}

void scalar_Div(const ElementwiseCall& c) {
  if (c.out.pointer || !is_float(c.out.dtype)) return divide_integers<false>(c);
  map_numbers<2>(c, [](auto a, auto b) { return a / b; });
}
void scalar_Rem(const ElementwiseCall& c) { divide_integers<true>(c); }

void scalar_MulHi(const ElementwiseCall& c) {
  for_integer("mulhi", c.out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    map_cells<2>(c, [](Cell a, Cell b) {
      const Wide product = static_cast<Wide>(take<T>(a)) * static_cast<Wide>(take<T>(b));
      return give<T>(wrap<T>(static_cast<std::uint64_t>(product >> kWidth<T>)));
    });
  });
}

void scalar_Min(const ElementwiseCall& c) {
  map_extreme(c, [](auto a, auto b, bool propagate) { return smaller(a, b, propagate); });
}
void scalar_Max(const ElementwiseCall& c) {
  map_extreme(c, [](auto a, auto b, bool propagate) { return larger(a, b, propagate); });
}

void scalar_Neg(const ElementwiseCall& c) {
  visit_dtype(held_as(c.out), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_cells<1>(c, [](Cell a) {
      if constexpr (kIsFloat<T>)
        return float_cell(-a.f);
      else
        return give<T>(wrap<T>(-static_cast<std::uint64_t>(a.i)));
    });
  });
}

void scalar_Abs(const ElementwiseCall& c) {
  visit_dtype(held_as(c.out), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_cells<1>(c, [](Cell a) {
      if constexpr (kIsFloat<T>)
        return float_cell(std::fabs(a.f));
      else if constexpr (std::is_signed_v<T>)
        return a.i < 0 ? give<T>(wrap<T>(-static_cast<std::uint64_t>(a.i))) : a;
      else
        return a;
    });
  });
}

void scalar_And(const ElementwiseCall& c) {
  map_bits("and", c, [](auto a, auto b) { return a & b; });
}
void scalar_Or(const ElementwiseCall& c) {
  map_bits("or", c, [](auto a, auto b) { return a | b; });
}
void scalar_Xor(const ElementwiseCall& c) {
  map_bits("xor", c, [](auto a, auto b) { return a ^ b; });
}
void scalar_Not(const ElementwiseCall& c) {
  for_integer("not", c.out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_cells<1>(c, [](Cell a) { return give<T>(wrap<T>(~static_cast<std::uint64_t>(a.i))); });
  });
}

// Shift amounts are unsigned, so a negative amount exceeds any width.
void scalar_Shl(const ElementwiseCall& c) {
  for_integer("shl", c.out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_cells<2>(c, [](Cell a, Cell b) {
      const auto amount = static_cast<std::uint64_t>(b.i);
      if (amount >= kWidth<T>) return int_cell(0);
      return give<T>(wrap<T>(static_cast<std::uint64_t>(a.i) << amount));
    });
  });
}
void scalar_Shr(const ElementwiseCall& c) {
  for_integer("shr", c.out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_cells<2>(c, [](Cell a, Cell b) {
      const auto amount = static_cast<std::uint64_t>(b.i);
      if constexpr (std::is_signed_v<T>)
        return int_cell(a.i >> (amount < 63 ? amount : 63));
      else
        return int_cell(amount >= kWidth<T>
                            ? 0
                            : static_cast<std::int64_t>(static_cast<std::uint64_t>(a.i) >> amount));
    });
  });
}

void scalar_Popc(const ElementwiseCall& c) {
  for_integer("popc", c.out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_cells<1>(c, [](Cell a) { return give<T>(wrap<T>(std::popcount(bits_of<T>(a)))); });
  });
}
void scalar_Clz(const ElementwiseCall& c) {
  for_integer("clz", c.out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_cells<1>(c, [](Cell a) {
      return give<T>(
          wrap<T>(static_cast<std::uint64_t>(kWidth<T> - std::bit_width(bits_of<T>(a)))));
    });
  });
}

void scalar_Cmp(const ElementwiseCall& c) {
  const Predicate p = predicate_of(c.attrs.s(AttrName::pred));
  visit_dtype(held_as(c.in[0]), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_cells<2>(c, [&](Cell x, Cell y) {
      const auto a = take<T>(x), b = take<T>(y);
      return int_cell(a < b ? p.less : a == b ? p.equal : b < a ? p.greater : p.unordered);
    });
  });
}

void scalar_Select(const ElementwiseCall& c) {
  map_cells<3>(c, [](Cell condition, Cell a, Cell b) { return condition.i != 0 ? a : b; });
}

void scalar_AddPtr(const ElementwiseCall& c) {
  const auto size = static_cast<std::uint64_t>(size_bytes(c.out.dtype));
  map_cells<2>(c, [&](Cell p, Cell n) {
    return int_cell(static_cast<std::int64_t>(static_cast<std::uint64_t>(p.i) +
                                              static_cast<std::uint64_t>(n.i) * size));
  });
}

}  // namespace tegula::ir
