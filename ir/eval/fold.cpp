// Folds by name and kind of number.
#include "ir/eval/fold.h"

#include <array>

#include "ir/eval/number.h"
#include "tegula/error.h"

namespace tegula::ir::interp {
namespace {

struct ReduceKindRow {
  std::string_view kind;
  Cell (*identity)(DType);
  void (*step)(Cell&, Cell);
};

Cell zero(DType dtype) { return is_float(dtype) ? Cell{.f = 0.0} : Cell{.i = 0}; }
Cell one(DType dtype) { return is_float(dtype) ? Cell{.f = 1.0} : Cell{.i = 1}; }
Cell all_ones(DType dtype) { return canonical(Cell{.i = -1}, dtype); }
Cell lowest(DType dtype) {
  return visit_dtype(dtype, [](auto tag) { return lowest_cell<typename decltype(tag)::type>(); });
}
Cell highest(DType dtype) {
  return visit_dtype(dtype, [](auto tag) { return highest_cell<typename decltype(tag)::type>(); });
}

std::uint64_t u(Cell c) { return static_cast<std::uint64_t>(c.i); }
Cell of(std::uint64_t v) { return Cell{.i = static_cast<std::int64_t>(v)}; }

constexpr std::array kFloatRows{
    ReduceKindRow{"sum", zero, [](Cell& a, Cell x) { a.f += x.f; }},
    ReduceKindRow{"prod", one, [](Cell& a, Cell x) { a.f *= x.f; }},
    ReduceKindRow{"max", lowest, [](Cell& a, Cell x) { a.f = larger(a.f, x.f, false); }},
    ReduceKindRow{"min", highest, [](Cell& a, Cell x) { a.f = smaller(a.f, x.f, false); }},
};
constexpr std::array kFloatRowsWithNan{
    ReduceKindRow{"max", lowest, [](Cell& a, Cell x) { a.f = larger(a.f, x.f, true); }},
    ReduceKindRow{"min", highest, [](Cell& a, Cell x) { a.f = smaller(a.f, x.f, true); }},
};
constexpr std::array kIntRows{
    ReduceKindRow{"sum", zero, [](Cell& a, Cell x) { a = of(u(a) + u(x)); }},
    ReduceKindRow{"prod", one, [](Cell& a, Cell x) { a = of(u(a) * u(x)); }},
    ReduceKindRow{"and", all_ones, [](Cell& a, Cell x) { a.i &= x.i; }},
    ReduceKindRow{"or", zero, [](Cell& a, Cell x) { a.i |= x.i; }},
    ReduceKindRow{"xor", zero, [](Cell& a, Cell x) { a.i ^= x.i; }},
};
constexpr std::array kSignedRows{
    ReduceKindRow{"max", lowest, [](Cell& a, Cell x) { a.i = std::max(a.i, x.i); }},
    ReduceKindRow{"min", highest, [](Cell& a, Cell x) { a.i = std::min(a.i, x.i); }},
};
constexpr std::array kUnsignedRows{
    ReduceKindRow{"max", lowest, [](Cell& a, Cell x) { a = of(std::max(u(a), u(x))); }},
    ReduceKindRow{"min", highest, [](Cell& a, Cell x) { a = of(std::min(u(a), u(x))); }},
};

const ReduceKindRow* find(std::span<const ReduceKindRow> rows, std::string_view kind) {
  for (const ReduceKindRow& row : rows)
    if (row.kind == kind) return &row;
  return nullptr;
}

const ReduceKindRow* find_row(std::string_view kind, DType dtype, std::string_view nan) {
  const ReduceKindRow* row = nullptr;
  if (is_float(dtype)) {
    if (nan == "propagate") row = find(kFloatRowsWithNan, kind);
    return row != nullptr ? row : find(kFloatRows, kind);
  }
  row = find(is_signed(dtype) ? std::span<const ReduceKindRow>(kSignedRows)
                              : std::span<const ReduceKindRow>(kUnsignedRows),
             kind);
  return row != nullptr ? row : find(kIntRows, kind);
}

}  // namespace

Fold fold_of(std::string_view kind, DType dtype, std::string_view nan) {
  const ReduceKindRow* row = find_row(kind, dtype, nan);
  if (row == nullptr)
    throw InternalError("no fold '" + std::string(kind) + "' of " + std::string(name(dtype)));
  return {row->identity(dtype), row->step};
}

AxisShape::AxisShape(std::span<const std::int64_t> shape, std::int64_t axis) {
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const auto n = static_cast<std::size_t>(shape[d]);
    (static_cast<std::int64_t>(d) < axis    ? outer
     : static_cast<std::int64_t>(d) == axis ? extent
                                            : inner) *= n;
  }
}

std::vector<std::uint8_t> edges_without(const std::vector<std::uint8_t>& edges,
                                        std::span<const std::int64_t> shape, std::int64_t axis) {
  std::vector<std::uint8_t> rest;
  std::size_t first = 0;
  for (std::size_t d = 0; d < shape.size() && !edges.empty(); ++d) {
    const auto n = static_cast<std::size_t>(shape[d]);
    if (static_cast<std::int64_t>(d) != axis)
      rest.insert(rest.end(), edges.begin() + static_cast<std::ptrdiff_t>(first),
                  edges.begin() + static_cast<std::ptrdiff_t>(first + n));
    first += n;
  }
  return rest;
}

}  // namespace tegula::ir::interp
