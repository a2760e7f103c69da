#pragma once
// Loops shared by the scalar_*.cpp files: one call processes all elements, and the element type is
// selected outside the loop.
#include "ir/eval/number.h"
#include "tegula/error.h"

namespace tegula::ir {

[[noreturn]] void refuse_elem(std::string_view op, Elem elem);

/// Computes result[i] = f(cell of each operand).
template <int N, class F>
void map_cells(const ElementwiseCall& c, F f) {
  static_assert(N >= 1 && N <= 3);
  const Cell* a = c.operands[0];
  const std::size_t sa = c.strides[0];
  if constexpr (N == 1) {
    for (std::size_t i = 0; i < c.count; ++i) c.result[i] = f(a[i * sa]);
  } else if constexpr (N == 2) {
    const Cell* b = c.operands[1];
    const std::size_t sb = c.strides[1];
    for (std::size_t i = 0; i < c.count; ++i) c.result[i] = f(a[i * sa], b[i * sb]);
  } else {
    const Cell *b = c.operands[1], *d = c.operands[2];
    const std::size_t sb = c.strides[1], sd = c.strides[2];
    for (std::size_t i = 0; i < c.count; ++i) c.result[i] = f(a[i * sa], b[i * sb], d[i * sd]);
  }
}

/// Calls `loop(std::type_identity<T>)` for the integer type (i1 included) that represents `elem`.
template <class Loop>
void for_integer(std::string_view op, Elem elem, Loop loop) {
  visit_dtype(held_as(elem), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsFloat<T>)
      refuse_elem(op, elem);
    else
      loop(tag);
  });
}

/// Like for_integer(), for floats.
template <class Loop>
void for_float(std::string_view op, Elem elem, Loop loop) {
  visit_dtype(held_as(elem), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsFloat<T>)
      loop(tag);
    else
      refuse_elem(op, elem);
  });
}

/// Applies f in the result's type: floats in their compute type, rounded once; integers as 64 bits,
/// wrapped.
template <int N, class F>
void map_numbers(const ElementwiseCall& c, F f) {
  visit_dtype(held_as(c.out), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsFloat<T>)
      map_cells<N>(c, [&](auto... cells) { return give<T>(f(take<T>(cells)...)); });
    else
      map_cells<N>(c, [&](auto... cells) {
        return give<T>(wrap<T>(f(static_cast<std::uint64_t>(cells.i)...)));
      });
  });
}

}  // namespace tegula::ir
