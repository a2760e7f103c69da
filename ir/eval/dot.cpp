// dot: multiplies and adds in double (integers: modulo 2^64), and rounds or wraps once to the
// accumulator's type.
#include <algorithm>

#include "ir/eval/number.h"
#include "ir/eval/slot.h"
#include "tegula/error.h"

namespace tegula::ir::interp {
namespace {

/// A row-major operand with its absent elements replaced by 0.
struct Matrix {
  std::size_t rows, columns;
  std::vector<Cell> copy;
  const Cell* cells = nullptr;
};

double to_tf32(double v) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(v));
  if (v != v || std::isinf(v)) return v;
  return std::bit_cast<float>((bits + 0xfffu + ((bits >> 13) & 1u)) & 0xffffe000u);
}

/// Returns matrix number `batch` of the operand, which is a single matrix unless it has three
/// dimensions.
Matrix matrix(Program& p, OpId id, std::size_t operand, bool as_tf32, std::size_t batch = 0) {
  const Value v = p.op(id).operands[operand];
  const auto shape = p.kernel().type(v).shape().last(2);
  Matrix m{static_cast<std::size_t>(shape[0]), static_cast<std::size_t>(shape[1]), {}, p.dense(v)};
  const std::size_t first = batch * m.rows * m.columns;
  m.cells += first;
  const std::uint8_t* states = p.states(v);
  if (states == nullptr && !as_tf32) return m;
  if (states != nullptr) states += first;
  m.copy.assign(m.cells, m.cells + m.rows * m.columns);
  for (std::size_t i = 0; i < m.copy.size(); ++i) {
    if (states != nullptr && (states[i] & kAbsent) != 0) m.copy[i] = Cell{.i = 0};
    if (as_tf32) m.copy[i].f = to_tf32(m.copy[i].f);
  }
  m.cells = m.copy.data();
  return m;
}

/// Computes sums[j] += row of a times column j of b, four rows of b at a time, so that each
/// accumulator is loaded and stored once per four rows.
void accumulate_row(const Cell* a, const Matrix& b, double* sums) {
  const std::size_t n = b.columns;
  std::size_t k = 0;
  for (; k + 4 <= b.rows; k += 4) {
    const double a0 = a[k].f, a1 = a[k + 1].f, a2 = a[k + 2].f, a3 = a[k + 3].f;
    const Cell *b0 = b.cells + k * n, *b1 = b0 + n, *b2 = b1 + n, *b3 = b2 + n;
    for (std::size_t j = 0; j < n; ++j)
      sums[j] += (a0 * b0[j].f + a1 * b1[j].f) + (a2 * b2[j].f + a3 * b3[j].f);
  }
  for (; k < b.rows; ++k)
    for (std::size_t j = 0; j < n; ++j) sums[j] += a[k].f * b.cells[k * n + j].f;
}

void dot_floats(const Matrix& a, const Matrix& b, const Cell* acc, DType dtype, Cell* out) {
  std::vector<double> sums(b.columns);
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::size_t i = 0; i < a.rows; ++i) {
      for (std::size_t j = 0; j < b.columns; ++j) sums[j] = acc[i * b.columns + j].f;
      accumulate_row(a.cells + i * a.columns, b, sums.data());
      if constexpr (kIsFloat<T>)
        for (std::size_t j = 0; j < b.columns; ++j) out[i * b.columns + j].f = rounded<T>(sums[j]);
    }
  });
}

void dot_integers(const Matrix& a, const Matrix& b, const Cell* acc, DType dtype, Cell* out) {
  std::vector<std::uint64_t> sums(b.columns);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < b.columns; ++j)
      sums[j] = static_cast<std::uint64_t>(acc[i * b.columns + j].i);
    for (std::size_t k = 0; k < a.columns; ++k) {
      const auto left = static_cast<std::uint64_t>(a.cells[i * a.columns + k].i);
      for (std::size_t j = 0; j < b.columns; ++j)
        sums[j] += left * static_cast<std::uint64_t>(b.cells[k * b.columns + j].i);
    }
    for (std::size_t j = 0; j < b.columns; ++j)
      out[i * b.columns + j] = canonical(Cell{.i = static_cast<std::int64_t>(sums[j])}, dtype);
  }
}

/// Returns poison if any present element of a row or column of an operand is poison. Absent
/// elements count as 0 along k; only an edge of the operand along its other dimension makes a row
/// or column of the result absent.
std::uint8_t line_state(const TileValue& v, std::size_t first, std::size_t step,
                        std::size_t count) {
  if (v.states.empty()) return 0;
  std::uint8_t any = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t s = v.state(first + i * step);
    if ((s & kAbsent) == 0) any |= s & kPoison;
  }
  return any;
}

/// Marks as absent the rows that a lacks, the columns that b lacks, and the rows and columns that
/// the accumulator lacks.
void join_edges(Program& p, OpId id, TileValue& out) {
  const TileValue &va = p.operand(id, 0), &vb = p.operand(id, 1), &vacc = p.operand(id, 2);
  if (va.edges.empty() && vb.edges.empty() && vacc.edges.empty()) return;
  const auto shape = p.result_type(id).shape();
  std::size_t count = 0;
  for (const std::int64_t extent : shape) count += static_cast<std::size_t>(extent);
  out.edges.assign(count, 0);
  const auto columns = static_cast<std::size_t>(shape.back());
  const auto rows = static_cast<std::size_t>(shape[shape.size() - 2]);
  const auto a = p.operand_type(id, 0).shape(), b = p.operand_type(id, 1).shape();
  std::ranges::copy(va.edge(a, a.size() - 2),
                    out.edges.end() - static_cast<std::ptrdiff_t>(rows + columns));
  std::ranges::copy(vb.edge(b, b.size() - 1),
                    out.edges.end() - static_cast<std::ptrdiff_t>(columns));
  for (std::size_t i = 0; i < vacc.edges.size(); ++i) out.edges[i] |= vacc.edges[i];
}

void spread_states(Program& p, OpId id, const Matrix& a, const Matrix& b, std::size_t batch,
                   TileValue& out) {
  const TileValue &va = p.operand(id, 0), &vb = p.operand(id, 1), &vacc = p.operand(id, 2);
  if (va.states.empty() && vb.states.empty() && vacc.states.empty()) return;
  std::vector<std::uint8_t> columns(b.columns);
  for (std::size_t j = 0; j < b.columns; ++j)
    columns[j] = line_state(vb, batch * b.rows * b.columns + j, b.columns, b.rows);
  out.states.resize(out.cells.size());
  const std::size_t first = batch * a.rows * b.columns;
  for (std::size_t i = 0; i < a.rows; ++i) {
    const std::uint8_t row = line_state(va, (batch * a.rows + i) * a.columns, 1, a.columns);
    for (std::size_t j = 0; j < b.columns; ++j) {
      const std::size_t element = first + i * b.columns + j;
      out.states[element] = row | columns[j] | vacc.state(element);
    }
  }
}

}  // namespace

namespace {

void check_types(DType in, DType sum) {
  if (is_float(in) != is_float(sum))
    throw InternalError("dot of " + std::string(name(in)) + " cannot accumulate in " +
                        std::string(name(sum)));
}

void transpose(Matrix& m) {
  std::vector<Cell> turned(m.copy.size());
  for (std::size_t i = 0; i < m.rows; ++i)
    for (std::size_t j = 0; j < m.columns; ++j) turned[j * m.rows + i] = m.copy[i * m.columns + j];
  m.copy = std::move(turned);
  std::swap(m.rows, m.columns);
}

/// Returns operand A or B of dot_async: a tile, or a slot of a shared tile, or its transpose (attrs
/// trans_a, trans_b). `next_slot` is the operand that contains the slot of the next shared operand.
Matrix async_operand(Program& p, OpId id, std::size_t operand, std::size_t& next_slot) {
  if (!p.operand_type(id, operand).is(TypeKind::Shared)) return matrix(p, id, operand, false);
  const auto shape = p.operand_type(id, operand).shape();
  Matrix m{static_cast<std::size_t>(shape[1]), static_cast<std::size_t>(shape[2]), {}};
  const auto slot = slot_of(p, id, operand, next_slot++, 2);
  m.copy.assign(m.rows * m.columns, Cell{.i = 0});
  if (slot) {
    check_readable(p, id, *slot);
    touch_shared(p, id, *slot, /*writes=*/false);
    std::copy_n(slot->tile->cells.begin() + static_cast<std::ptrdiff_t>(slot->first), slot->count,
                m.copy.begin());
  }
  if (p.attrs(id).i(operand == 1 ? AttrName::trans_a : AttrName::trans_b) == 1) transpose(m);
  m.cells = m.copy.data();
  return m;
}

}  // namespace

void eval_Dot(Program& p, OpId id) {
  const DType in = p.operand_type(id, 0).dtype(), dtype = p.result_type(id).dtype();
  check_types(in, dtype);
  const bool as_tf32 = in == DType::f32 && p.attrs(id).s(AttrName::precision) == "tf32";
  const Cell* acc = p.dense(p.op(id).operands[2]);
  const auto shape = p.result_type(id).shape();
  TileValue& out = p.result(id);
  out.reset(static_cast<std::size_t>(p.result_type(id).count()));
  for (std::size_t i = 0; i < 3; ++i)
    if (!out.origin) out.origin = p.operand(id, i).origin;
  const auto batches = static_cast<std::size_t>(shape.size() == 3 ? shape[0] : 1);
  for (std::size_t batch = 0; batch < batches; ++batch) {
    const Matrix a = matrix(p, id, 0, as_tf32, batch), b = matrix(p, id, 1, as_tf32, batch);
    const std::size_t first = batch * a.rows * b.columns;
    (is_float(dtype) ? dot_floats : dot_integers)(a, b, acc + first, dtype,
                                                  out.cells.data() + first);
    spread_states(p, id, a, b, batch, out);
  }
  join_edges(p, id, out);
}

// The result is computed at issue. The simulator detects changes of the operands before the wait.
void eval_DotAsync(Program& p, OpId id) {
  const Type sum = p.result_type(id).inner();
  check_types(p.operand_type(id, 2).dtype(), sum.dtype());
  std::size_t next_slot = 4;
  const Matrix a = async_operand(p, id, 1, next_slot), b = async_operand(p, id, 2, next_slot);
  const auto keeps = p.integer(id, 3, "scale_d");
  const std::size_t count = a.rows * b.columns;
  std::vector<Cell> acc(count, Cell{.i = 0});
  TileValue before;
  if (keeps && *keeps != 0) {
    before = p.operand(id, 0);
    std::copy_n(p.dense(p.op(id).operands[0]), count, acc.begin());
  }
  const TileValue& left = p.operand(id, 1);
  TileValue& out = p.result(id);
  out.reset(count);
  (is_float(sum.dtype()) ? dot_floats : dot_integers)(a, b, acc.data(), sum.dtype(),
                                                      out.cells.data());
  for (std::size_t i = 0; i < a.rows; ++i) {
    const std::uint8_t row =
        left.shared ? 0 : line_state(left, i * a.columns, left.stride(), a.columns);
    for (std::size_t j = 0; j < b.columns; ++j)
      if (const auto state = static_cast<std::uint8_t>(
              row | (before.cells.empty() ? 0 : before.state(i * b.columns + j))))
        out.add_state(i * b.columns + j, state);
  }
  if (!out.states.empty()) out.origin = left.origin ? left.origin : before.origin;
}

void eval_DotWait(Program& p, OpId id) {
  for (std::size_t i = 0; i < p.op(id).results.size(); ++i) p.result(id, i) = p.operand(id, i);
}

}  // namespace tegula::ir::interp
