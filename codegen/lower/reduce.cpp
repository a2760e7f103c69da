// Lowering of reductions: a tree over a thread's registers, xor-shuffles over the lanes that share
// a result, then shared memory over the warps that share one. All kinds use one path over tuples of
// register vectors.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "codegen/lower/fold_tuple.h"
#include "codegen/lower/shuffle.h"
#include "ir/analysis/never_nan.h"
#include "ir/layout/layout_ops.h"
#include "ir/layout/reduction.h"
#include "ir/reduce_kind.h"
#include "ir/text.h"
#include "support/errors.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

namespace {

class Reduction {
 public:
  /// Order in which a thread folds its registers.
  enum class Order : std::uint8_t { Halves, OneByOne };

  Reduction(Lowering& l, OpId op, Combine combine, Order order = Order::Halves)
      : l_(l),
        combine_(std::move(combine)),
        order_(order),
        axis_(static_cast<int>(l.from[op].attrs.i(AttrName::axis))),
        layout_(layout_of(l.from.type(l.from[op].operands[0]))),
        plan_(make_plan(layout_, axis_)) {}

  /// Returns the registers of each result, in the order of the result's layout.
  Tuple run(Tuple tuple) {
    tuple = over_registers(tuple);
    if (vote_ && is_over_whole_warps()) {
      tuple = {votes(tuple[0])};
      return plan_.needs_shared() ? over_warps(tuple) : tuple;
    }
    for (int mask : plan_.lane_masks) {
      Tuple other;
      for (Value v : tuple) other.push_back(shuffle(l_, v, l_.b.i32(mask), "xor"));
      tuple = combine_(tuple, other);
    }
    return plan_.needs_shared() ? over_warps(tuple) : tuple;
  }

  /// Replaces padding by the identity.
  Value without_padding(Value v, Value identity) {
    const Value real = inside_along(l_, layout_, axis_);
    return real ? l_.b.select(real, v, identity) : v;
  }

  Value index_along_axis() { return index_along(l_, layout_, axis_); }

  /// Folds i1 values over a warp by a vote of this kind.
  void fold_by_vote(const char* kind) { vote_ = kind; }

 private:
  bool is_over_whole_warps() const {
    constexpr int kLaneBits = 5;
    const auto is_bit = [](int mask) { return std::has_single_bit(static_cast<unsigned>(mask)); };
    return plan_.lane_masks.size() == kLaneBits && std::ranges::all_of(plan_.lane_masks, is_bit);
  }
  Value votes(Value v) {
    if (!l_.type(v).is_vec()) return vote(v);
    std::vector<Value> each;
    for (std::int64_t r = 0; r < l_.type(v).count(); ++r)
      each.push_back(vote(l_.b.op(Opcode::Regs, {v}, {{AttrName::indices, Ints{r}}})));
    return l_.concat(each);
  }
  Value vote(Value v) { return l_.b.op(Opcode::Vote, {v}, {{AttrName::kind, vote_}}); }

  static ReductionPlan make_plan(const LinearLayout& layout, int axis) {
    auto plan = plan_reduction(layout, axis);
    if (!plan) throw InternalError(fmt::format("reduce over {}: {}", layout.str(), plan.reason()));
    if (plan->needs_cluster()) throw InternalError("reduce across the blocks of a cluster");
    return *plan;
  }

  /// Returns the registers to fold as a row-major matrix with one column per result register.
  /// 16-bit elements are stored column by column, so that neighbors of one result share a word.
  Tuple matrix(const Tuple& tuple) {
    is_by_columns_ = size_bits(l_.type(tuple[0]).dtype()) == 16;
    std::vector<std::int64_t> indices(plan_.registers.size() * plan_.registers.front().size());
    const std::size_t rows = plan_.registers.front().size();
    for (std::size_t c = 0; c < plan_.registers.size(); ++c)
      for (std::size_t j = 0; j < rows; ++j) indices[place(c, j, rows)] = plan_.registers[c][j];
    return pick(l_, tuple, indices);
  }
  std::size_t place(std::size_t column, std::size_t row, std::size_t rows) const {
    return is_by_columns_ ? column * rows + row : row * plan_.registers.size() + column;
  }
  /// Returns rows [begin, end) of a matrix.
  Tuple part(const Tuple& matrix, std::size_t rows, std::size_t begin, std::size_t end) {
    std::vector<std::int64_t> indices((end - begin) * plan_.registers.size());
    for (std::size_t c = 0; c < plan_.registers.size(); ++c)
      for (std::size_t j = begin; j < end; ++j)
        indices[place(c, j - begin, end - begin)] = static_cast<std::int64_t>(place(c, j, rows));
    return pick(l_, matrix, indices);
  }

  /// Folds halves while the count is even, so that one op combines many registers; an odd rest is
  /// folded one by one.
  Tuple over_registers(const Tuple& tuple) {
    std::size_t count = plan_.registers.front().size();
    Tuple all = matrix(tuple);
    for (; order_ == Order::Halves && count % 2 == 0; count /= 2)
      all = combine_(part(all, count, 0, count / 2), part(all, count, count / 2, count));
    Tuple sum = part(all, count, 0, 1);
    for (std::size_t j = 1; j < count; ++j) sum = combine_(sum, part(all, count, j, j + 1));
    return sum;
  }

  // ---- across warps
  /// Returns the digits of the warp number that identify a warp's part of a result.
  std::vector<ThreadDigit> warp_digits() const {
    std::vector<ThreadDigit> digits;
    for (int mask : plan_.warp_masks) {
      if (!std::has_single_bit(static_cast<unsigned>(mask)))
        throw InternalError("reduce: parts are along sums of warp bits");
      digits.push_back({HwDim::Warp, mask, 2, 0});
    }
    digits.insert(digits.end(), plan_.warp_digits.begin(), plan_.warp_digits.end());
    return digits;
  }

  Tuple over_warps(const Tuple& tuple) {
    const auto partials = static_cast<std::size_t>(plan_.warps());
    std::vector<Tuple> gathered(partials);
    for (Value v : tuple) {
      const auto parts = exchange_parts(l_, v, parts_of(v));
      for (std::size_t i = 0; i < partials; ++i) gathered[i].push_back(parts[i]);
    }
    Tuple sum = gathered[0];
    for (std::size_t i = 1; i < partials; ++i) sum = combine_(sum, gathered[i]);
    return sum;
  }

  /// Returns the number of each register's result element: in lane order if the layout consists of
  /// bits only, so that scratch memory is accessed without bank conflicts.
  Value element_number(std::int64_t registers) {
    const auto by_lanes = number_lanes_first(plan_.result);
    const LinearLayout& result = by_lanes ? *by_lanes : plan_.result;
    Value element =
        l_.constants(DType::i32, std::vector<std::int64_t>(static_cast<std::size_t>(registers), 0));
    std::int64_t stride = 1;
    for (int d = result.rank() - 1; d >= 0; --d) {
      const IndexParts parts = l_.index_parts(result, d);
      Value index = l_.constants(DType::i32, parts.constant);
      if (parts.thread) index = l_.b.add(index, parts.thread);
      element = l_.b.add(element, l_.b.mul(index, l_.b.i32(stride)));
      stride *= result.cover()[d];
    }
    return element;
  }

  /// Returns coordinate / divisor % count. Both are powers of two except for odd warp counts.
  Value digit_of(const ThreadDigit& d) {
    const auto divisor = static_cast<unsigned>(d.divisor), count = static_cast<unsigned>(d.count);
    const Value warp = l_.coordinate(HwDim::Warp);
    if (!std::has_single_bit(divisor) || !std::has_single_bit(count))
      return l_.b.rem(l_.b.div(warp, l_.b.i32(d.divisor)), l_.b.i32(d.count));
    return l_.b.op(Opcode::And, {l_.b.op(Opcode::Shr, {warp, l_.b.i32(std::countr_zero(divisor))}),
                                 l_.b.i32(count - 1)});
  }

  WarpParts parts_of(Value v) {
    const std::int64_t registers = l_.type(v).count();
    return {.elements = plan_.result.cover().product(),
            .parts = plan_.warps(),
            .element = [this, registers] { return element_number(registers); },
            .own_part = [this](std::int64_t bytes) { return own_part(bytes); },
            .writes = [this] { return first_lane_of_copies(); }};
  }

  Value own_part(std::int64_t bytes) {
    Value offset = l_.b.i32(0);
    std::int64_t weight = bytes;
    for (const ThreadDigit& d : warp_digits()) {
      offset = l_.b.add(offset, l_.b.mul(digit_of(d), l_.b.i32(weight)));
      weight *= d.count;
    }
    return offset;
  }

  /// Returns a predicate: true in one of the lanes that hold copies of the result and one of the
  /// warps that hold copies of the operand.
  Value first_lane_of_copies() { return is_first_copy(l_, layout_, lanes_of_copies(plan_.result)); }

  Lowering& l_;
  Combine combine_;
  Order order_;
  int axis_;
  const LinearLayout& layout_;
  ReductionPlan plan_;
  bool is_by_columns_ = false;
  const char* vote_ = nullptr;  ///< any or all; null: lanes exchange values
};

/// Sets the results of the op: a register vector for a tile, one register for a scalar.
void set_results(Lowering& l, OpId op, const Tuple& tuple) {
  const OpData& d = l.from[op];
  for (std::size_t i = 0; i < d.results.size(); ++i) {
    const bool tile = l.from.type(d.results[i]).is_tile();
    l.set(d.results[i],
          tile ? tuple[i] : l.b.op(Opcode::Regs, {tuple[i]}, {{AttrName::indices, Ints{0}}}));
  }
}

/// Returns true for narrow floats, which are folded in f32 and rounded once, at the end.
bool folded_in_f32(DType t) { return is_float(t) && size_bits(t) < 32; }

}  // namespace

void lower_Reduce(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const DType dtype = l.from.type(d.operands[0]).dtype();
  const ReduceKind& kind = reduce_kind(d.attrs.s(AttrName::kind));
  const DType wide = folded_in_f32(dtype) ? DType::f32 : dtype;
  const auto combine = [&](const Tuple& a, const Tuple& b) {
    return Tuple{l.b.op(kind.op, {a[0], b[0]})};
  };
  // The special function unit delivers the summands one by one (attention, softmax). A chain keeps
  // up with it; adding halves first would wait for two summands that arrive far apart: 1-3 % of
  // attention on an H200 (bench/results/sweeps/*-attention-plans.jsonl).
  const bool is_float_sum = kind.op == Opcode::Add && is_float(wide);
  Reduction reduction(l, op, combine,
                      is_float_sum ? Reduction::Order::OneByOne : Reduction::Order::Halves);
  if (wide == DType::i1 && (kind.op == Opcode::Or || kind.op == Opcode::And))
    reduction.fold_by_vote(kind.op == Opcode::Or ? "any" : "all");
  const Value value = l.b.cast(l.get(d.operands[0]), wide);
  const Value identity = kind.identity(l.b, wide);
  Tuple result = reduction.run({reduction.without_padding(value, identity)});
  // The hardware's min or max of NaNs alone is NaN.
  const bool may_be_nan = is_float(wide) && (kind.op == Opcode::Max || kind.op == Opcode::Min) &&
                          !loses_to_users(l.from, d.results[0], kind.op);
  if (may_be_nan) result[0] = l.b.op(kind.op, {result[0], identity});
  result[0] = l.b.cast(result[0], dtype);
  set_results(l, op, result);
}

void lower_ArgReduce(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type type = l.from.type(d.operands[0]);
  const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
  const bool largest = d.attrs.s(AttrName::kind) == "max";
  const auto combine = [&](const Tuple& a, const Tuple& b) {
    // b wins if it is better, or equal with a smaller index; NaNs are replaced below.
    const Value better = l.b.cmp(largest ? "gt" : "lt", b[0], a[0]);
    const Value equal = l.b.cmp("eq", b[0], a[0]);
    const Value earlier = l.b.cmp("lt", b[1], a[1]);
    Value wins = l.b.op(Opcode::Or, {better, l.b.op(Opcode::And, {equal, earlier})});
    return Tuple{l.b.select(wins, b[0], a[0]), l.b.select(wins, b[1], a[1])};
  };
  Reduction reduction(l, op, combine);
  const ReduceKind& kind = reduce_kind(largest ? "max" : "min");
  const Value identity = kind.identity(l.b, type.dtype());
  // Padding may hold anything, so it must not determine the index.
  const Value value = reduction.without_padding(l.get(d.operands[0]), identity);
  const Value index = reduction.index_along_axis(),
              past_end = l.b.add(index, l.b.i32(layout_of(type).cover()[axis]));
  Tuple both{value, index};
  // NaN never wins: it is replaced by the identity with an index past the end.
  if (is_float(type.dtype())) {
    const Value number = l.b.cmp("eq", value, value);
    both = {l.b.select(number, value, identity), l.b.select(number, index, past_end)};
  }
  Tuple result = reduction.run({both[0], reduction.without_padding(both[1], past_end)});
  // If all elements are NaN, the result is index 0.
  if (is_float(type.dtype()))
    result[1] = l.b.select(l.b.cmp("lt", result[1], l.b.i32(layout_of(type).shape()[axis])),
                           result[1], l.b.i32(0));
  set_results(l, op, result);
}

void lower_ReduceWith(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const LinearLayout& layout = layout_of(l.from.type(d.operands[0]));
  const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
  Combine combine = combine_by_region(l, d.regions[0]);
  Tuple values;
  for (Value v : d.operands) values.push_back(l.get(v));
  // A user function has no identity to replace padding by.
  if (const Value inside = inside_along(l, layout, axis)) {
    values.push_back(inside);
    combine = combine_valid(l, std::move(combine));
  }
  set_results(l, op, Reduction(l, op, std::move(combine)).run(values));
}

}  // namespace tegula::codegen
