// Reductions and scans. Absent elements along the axis count as the identity; elements outside the
// tensor along another dimension stay absent.
#include <algorithm>

#include "ir/eval/fold.h"
#include "ir/eval/number.h"
#include "ir/eval/program.h"

namespace tegula::ir::interp {
namespace {

constexpr bool is_absent(const std::uint8_t* states, std::size_t i) {
  return states != nullptr && (states[i] & kAbsent) != 0;
}
constexpr bool is_poison(const std::uint8_t* states, std::size_t i) {
  return states != nullptr && (states[i] & (kAbsent | kPoison)) == kPoison;
}

/// A tile operand viewed along the axis of the op.
struct Along {
  AxisShape shape;
  const Cell* cells;
  const std::uint8_t* states;
  std::size_t at(std::size_t outer, std::size_t k, std::size_t inner) const {
    return (outer * shape.extent + k) * shape.inner + inner;
  }
};

Along along_axis(Program& p, OpId id, std::size_t operand, std::size_t slot = 0) {
  const Value v = p.op(id).operands[operand];
  return {AxisShape(p.kernel().type(v).shape(), p.attrs(id).i(AttrName::axis)), p.dense(v),
          p.states(v, slot)};
}

/// Starts the result of a reduction: marks the elements outside along other dimensions.
TileValue& start_result(Program& p, OpId id, std::size_t result, std::size_t operand) {
  TileValue& out = p.result(id, result);
  const TileValue& in = p.operand(id, operand);
  out.reset(static_cast<std::size_t>(p.result_type(id, result).count()));
  out.edges =
      edges_without(in.edges, p.operand_type(id, operand).shape(), p.attrs(id).i(AttrName::axis));
  out.origin = in.origin;
  return out;
}

/// Returns true if `a` beats `b` in an arg_reduce; a NaN never does.
template <class T, bool kMax>
bool beats(Cell a, Cell b) {
  return kMax ? take<T>(b) < take<T>(a) : take<T>(a) < take<T>(b);
}

template <class T, bool kMax>
void arg_fold(const Along& in, TileValue& best, TileValue& index) {
  const AxisShape& s = in.shape;
  for (std::size_t o = 0; o < s.outer; ++o)
    for (std::size_t j = 0; j < s.inner; ++j) {
      const std::size_t to = o * s.inner + j;
      bool found = false;
      best.cells[to] = kMax ? lowest_cell<T>() : highest_cell<T>();
      index.cells[to] = int_cell(0);
      for (std::size_t k = 0; k < s.extent; ++k) {
        const std::size_t from = in.at(o, k, j);
        if (is_absent(in.states, from)) continue;
        if (is_poison(in.states, from)) {
          best.add_state(to, kPoison);
          index.add_state(to, kPoison);
        }
        const Cell c = in.cells[from];
        if (take<T>(c) != take<T>(c) || (found && !beats<T, kMax>(c, best.cells[to]))) continue;
        found = true;
        best.cells[to] = c;
        index.cells[to] = int_cell(static_cast<std::int64_t>(k));
      }
    }
}

/// Extremes begin with the identity, which is preferred to a leading NaN; a sum begins with its
/// first element, which may be -0.
bool is_extreme(const AttrList& attrs) {
  return attrs.s(AttrName::kind) == "max" || attrs.s(AttrName::kind) == "min";
}

void scan_lane(const Along& in, const Fold& fold, bool begins_with_first, bool is_exclusive,
               DType dtype, std::size_t first, std::size_t step, TileValue& out) {
  Cell running = fold.identity;
  bool has_poison = false;
  for (std::size_t k = 0, i = first; k < in.shape.extent; ++k, i += step) {
    const Cell before = running;
    const bool had_poison = has_poison;
    if (!is_absent(in.states, i)) {
      has_poison |= is_poison(in.states, i);
      if (k == 0 && begins_with_first)
        running = in.cells[i];
      else
        fold.step(running, in.cells[i]);
    }
    out.cells[i] = canonical(is_exclusive ? before : running, dtype);
    if (is_exclusive ? had_poison : has_poison) out.add_state(i, kPoison);
    if (is_absent(in.states, i)) out.add_state(i, kAbsent);
  }
}

}  // namespace

void eval_Reduce(Program& p, OpId id) {
  const DType dtype = p.operand_type(id, 0).dtype();
  const AttrList& attrs = p.attrs(id);
  const Fold fold = fold_of(attrs.s(AttrName::kind), dtype, attrs.s(AttrName::nan));
  const bool takes_extremes = is_extreme(attrs);
  const Along in = along_axis(p, id, 0);
  TileValue& out = start_result(p, id, 0, 0);
  const AxisShape& s = in.shape;
  for (std::size_t o = 0; o < s.outer; ++o) {
    Cell* to = out.cells.data() + o * s.inner;
    for (std::size_t k = 0; k < s.extent; ++k)
      for (std::size_t j = 0; j < s.inner; ++j) {
        const std::size_t from = in.at(o, k, j);
        const Cell c = is_absent(in.states, from) ? fold.identity : in.cells[from];
        if (is_poison(in.states, from)) out.add_state(o * s.inner + j, kPoison);
        if (k == 0) to[j] = takes_extremes ? fold.identity : c;
        if (k != 0 || takes_extremes) fold.step(to[j], c);
      }
  }
  for (Cell& c : out.cells) c = canonical(c, dtype);
}

void eval_ArgReduce(Program& p, OpId id) {
  const Along in = along_axis(p, id, 0);
  TileValue& best = start_result(p, id, 0, 0);
  TileValue& index = start_result(p, id, 1, 0);
  const bool is_max = p.attrs(id).s(AttrName::kind) == "max";
  visit_dtype(p.operand_type(id, 0).dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (is_max)
      arg_fold<T, true>(in, best, index);
    else
      arg_fold<T, false>(in, best, index);
  });
}

void eval_Scan(Program& p, OpId id) {
  const DType dtype = p.operand_type(id, 0).dtype();
  const AttrList& attrs = p.attrs(id);
  const Fold fold = fold_of(attrs.s(AttrName::kind), dtype, attrs.s(AttrName::nan));
  const bool is_reverse = attrs.i(AttrName::reverse) != 0,
             is_exclusive = attrs.i(AttrName::exclusive) != 0;
  const Along in = along_axis(p, id, 0);
  TileValue& out = p.result(id);
  out.reset(static_cast<std::size_t>(p.result_type(id).count()));
  out.edges = p.operand(id, 0).edges;
  out.origin = p.operand(id, 0).origin;
  const AxisShape& s = in.shape;
  for (std::size_t o = 0; o < s.outer; ++o)
    for (std::size_t j = 0; j < s.inner; ++j)
      scan_lane(in, fold, !is_extreme(attrs), is_exclusive, dtype,
                in.at(o, is_reverse ? s.extent - 1 : 0, j),
                is_reverse ? std::size_t{0} - s.inner : s.inner, out);
}

}  // namespace tegula::ir::interp
