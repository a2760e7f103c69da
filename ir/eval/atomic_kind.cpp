// The table of atomic operations.
#include "ir/eval/atomic_kind.h"

#include <fmt/format.h>

#include <array>

#include "tegula/error.h"

namespace tegula::ir::interp {
namespace {

template <class F>
Cell combine(Cell old, Cell value, DType dtype, F f) {
  return visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsFloat<T>)
      return give<T>(f(take<T>(old), take<T>(value)));
    else
      return give<T>(static_cast<T>(f(take<T>(old), take<T>(value))));
  });
}
Cell combine_add(Cell old, Cell value, DType dtype) {
  if (is_float(dtype))
    return combine(old, value, dtype,
                   [](auto a, auto b) { return static_cast<decltype(a)>(a + b); });
  return canonical(Cell{.i = static_cast<std::int64_t>(static_cast<std::uint64_t>(old.i) +
                                                       static_cast<std::uint64_t>(value.i))},
                   dtype);
}
Cell combine_max(Cell old, Cell value, DType dtype) {
  return combine(old, value, dtype, [](auto a, auto b) { return larger(a, b, false); });
}
Cell combine_min(Cell old, Cell value, DType dtype) {
  return combine(old, value, dtype, [](auto a, auto b) { return smaller(a, b, false); });
}
Cell combine_and(Cell old, Cell value, DType) { return Cell{.i = old.i & value.i}; }
Cell combine_or(Cell old, Cell value, DType) { return Cell{.i = old.i | value.i}; }
Cell combine_xor(Cell old, Cell value, DType) { return Cell{.i = old.i ^ value.i}; }
Cell combine_xchg(Cell, Cell value, DType) { return value; }
Cell combine_inc(Cell old, Cell value, DType) {
  return Cell{.i = old.i >= value.i ? 0 : old.i + 1};
}

}  // namespace

Combine combine_of(std::string_view kind) {
  struct AtomicKindRow {
    std::string_view kind;
    Combine combine;
  };
  static constexpr std::array kRows{
      AtomicKindRow{"add", combine_add},   AtomicKindRow{"max", combine_max},
      AtomicKindRow{"min", combine_min},   AtomicKindRow{"and", combine_and},
      AtomicKindRow{"or", combine_or},     AtomicKindRow{"xor", combine_xor},
      AtomicKindRow{"xchg", combine_xchg}, AtomicKindRow{"inc", combine_inc}};
  for (const AtomicKindRow& row : kRows)
    if (row.kind == kind) return row.combine;
  throw InternalError(fmt::format("no atomic operation is called '{}'", kind));
}

}  // namespace tegula::ir::interp
