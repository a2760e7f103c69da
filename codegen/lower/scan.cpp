// Lowering of scans. The pass assign_layouts gives a scan a layout in which a thread holds
// consecutive elements along the axis, lanes hold consecutive runs and warps consecutive parts. The
// prefix is computed in each thread, then across lanes, then, through shared memory, across warps.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/lower/fold_tuple.h"
#include "codegen/lower/shuffle.h"
#include "ir/layout/linear_layout.h"
#include "ir/reduce_kind.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Returns rows: rows[i] has the i-th register along the axis, in scan order, of each line of the
/// thread.
std::vector<std::vector<int>> lines(const LinearLayout& layout, int axis, bool reverse) {
  std::map<std::vector<int>, std::map<int, int>> by_line;
  for (int r = 0; r < layout.registers(); ++r) {
    const ir::Dims index = layout.apply({.reg = r});
    std::vector<int> rest;
    for (int d = 0; d < index.size(); ++d)
      if (d != axis) rest.push_back(index[d]);
    by_line[rest].try_emplace(reverse ? -index[axis] : index[axis], r);
  }
  std::vector<std::vector<int>> rows(by_line.begin()->second.size());
  for (const auto& [rest, line] : by_line) {
    std::size_t i = 0;
    for (const auto& [position, reg] : line) rows[i++].push_back(reg);
  }
  return rows;
}

/// Returns the number of low bits of lanes or warps along the axis. Throws if they are not in
/// order.
int bits_along(const LinearLayout& layout, HwDim in, int axis) {
  int bits = 0, last = 0;
  for (int bit = 0; bit < layout.in_bits(in); ++bit) {
    const int step = layout.basis(in, bit)[axis];
    if (step == 0) continue;
    if (bit != bits || step <= last)
      throw InternalError(fmt::format("scan: {} are not in order along the axis", name(in)));
    last = step, ++bits;
  }
  return bits;
}

class Scanning {
 public:
  /// `identity`: for an exclusive scan, one scalar per member of the tuple.
  Scanning(Lowering& l, OpId op, Combine combine, Tuple identity)
      : l_(l),
        layout_(layout_of(l.from.type(l.from[op].results[0]))),
        axis_(static_cast<int>(l.from[op].attrs.i(AttrName::axis))),
        is_reverse_(l.from[op].attrs.i(AttrName::reverse) != 0),
        is_exclusive_(l.from[op].attrs.i(AttrName::exclusive) != 0),
        combine_(std::move(combine)),
        identity_(std::move(identity)),
        rows_(lines(layout_, axis_, is_reverse_)),
        lane_bits_(bits_along(layout_, HwDim::Lane, axis_)),
        warp_bits_(bits_along(layout_, HwDim::Warp, axis_)) {}

  Tuple run(const Tuple& values) {
    std::vector<Tuple> prefix;
    for (const auto& row : rows_) {
      Tuple next;
      for (Value v : values) next.push_back(l_.regs(v, row));
      prefix.push_back(prefix.empty() ? next : join(prefix.back(), next));
    }
    const Before before = before_thread(prefix.back());
    std::vector<Tuple> out;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!is_exclusive_)
        out.push_back(after(before, prefix[i]));
      else
        out.push_back(i == 0 ? first_of(before, prefix[0]) : after(before, prefix[i - 1]));
    }
    return in_layout(out);
  }

 private:
  /// Fold of all elements before a part in scan order; valid where `exists` is true. An empty value
  /// means that no part has predecessors.
  struct Before {
    Tuple value;
    Value exists;
  };

  /// Combines `a` and `b`, which follows it in scan order. The function receives them in axis
  /// order.
  Tuple join(const Tuple& a, const Tuple& b) {
    return is_reverse_ ? combine_(b, a) : combine_(a, b);
  }

  Tuple after(const Before& before, const Tuple& value) {
    return before.value.empty() ? value
                                : choose(l_, before.exists, join(before.value, value), value);
  }

  /// Returns the first element of the thread in an exclusive scan: the preceding fold or the
  /// identity.
  Tuple first_of(const Before& before, const Tuple& like) {
    Tuple identity;
    for (std::size_t i = 0; i < like.size(); ++i)
      identity.push_back(l_.splat(identity_[i], l_.type(like[i]).count()));
    return before.value.empty() ? identity : choose(l_, before.exists, before.value, identity);
  }

  Before before_thread(const Tuple& total) {
    Tuple running = total;
    const Before lanes = before_lane(running), warps = before_warp(running);
    if (lanes.value.empty()) return warps;
    if (warps.value.empty()) return lanes;
    const Tuple all = choose(l_, warps.exists, join(warps.value, lanes.value), lanes.value);
    return {choose(l_, lanes.exists, all, warps.value),
            l_.b.op(Opcode::Or, {lanes.exists, warps.exists})};
  }

  /// Returns the number of this lane's or warp's part along the axis.
  Value part_of(HwDim in, int bits) {
    return l_.b.op(Opcode::And, {l_.coordinate(in), l_.b.i32((1 << bits) - 1)});
  }
  /// Returns a predicate: true in parts that follow the first one in scan order by at least `by`.
  Value follows_by(Value part, int bits, int by) {
    return is_reverse_ ? l_.b.cmp("lt", part, l_.b.i32((1 << bits) - by))
                       : l_.b.cmp("ge", part, l_.b.i32(by));
  }

  /// Replaces `running` by the fold of all lanes up to this one; returns the fold of the lanes
  /// before.
  Before before_lane(Tuple& running) {
    if (lane_bits_ == 0) return {};
    const Value part = part_of(HwDim::Lane, lane_bits_);
    for (int bit = 0; bit < lane_bits_; ++bit)
      running = choose(l_, follows_by(part, lane_bits_, 1 << bit),
                       join(moved(running, 1 << bit), running), running);
    return {moved(running, 1), follows_by(part, lane_bits_, 1)};
  }
  Tuple moved(const Tuple& tuple, int by) {
    Tuple out;
    for (Value v : tuple) out.push_back(shuffle(l_, v, l_.b.i32(by), is_reverse_ ? "down" : "up"));
    return out;
  }

  /// Returns the fold of the preceding warps. The total of a warp is that of its last lane.
  Before before_warp(const Tuple& running) {
    if (warp_bits_ == 0) return {};
    const int parts = 1 << warp_bits_;
    const Value own_part = part_of(HwDim::Warp, warp_bits_);
    std::vector<Tuple> totals(static_cast<std::size_t>(parts));
    for (Value v : running) {
      const auto of_all = exchange_parts(l_, v, warp_parts(own_part));
      for (std::size_t i = 0; i < totals.size(); ++i) totals[i].push_back(of_all[i]);
    }
    if (is_reverse_) std::ranges::reverse(totals);
    Tuple before = totals[0];
    for (int i = 1; i + 1 < parts; ++i)
      before = choose(l_, follows_by(own_part, warp_bits_, i + 1),
                      join(before, totals[static_cast<std::size_t>(i)]), before);
    return {before, follows_by(own_part, warp_bits_, 1)};
  }

  WarpParts warp_parts(Value own_part) {
    std::int64_t count = 1;
    for (int d = 0; d < layout_.rank(); ++d)
      if (d != axis_) count *= layout_.cover()[d];
    return {
        .elements = count,
        .parts = 1 << warp_bits_,
        .element = [this] { return line_number(); },
        .own_part = [this, own_part](std::int64_t b) { return l_.b.mul(own_part, l_.b.i32(b)); },
        .writes = [this] { return is_last_lane(); }};
  }

  Value is_last_lane() {
    const Value first = is_first_copy(l_, layout_, lanes_of_copies(layout_));
    if (lane_bits_ == 0) return first;
    const std::int64_t last = is_reverse_ ? 0 : (1 << lane_bits_) - 1;
    return l_.and_predicates(first,
                             l_.b.cmp("eq", part_of(HwDim::Lane, lane_bits_), l_.b.i32(last)));
  }

  /// Returns the number of each line that the thread holds.
  Value line_number() {
    const std::vector<int>& row = rows_.front();
    Value number = l_.constants(DType::i32, std::vector<std::int64_t>(row.size(), 0));
    std::int64_t stride = 1;
    for (int d = layout_.rank() - 1; d >= 0; --d) {
      if (d == axis_) continue;
      const Value index = l_.regs(index_along(l_, layout_, d), row);
      number = l_.b.add(number, l_.b.mul(index, l_.b.i32(stride)));
      stride *= layout_.cover()[d];
    }
    return number;
  }

  /// Returns the registers of the rows, in the order of the layout.
  Tuple in_layout(const std::vector<Tuple>& out) {
    std::vector<std::int64_t> back(static_cast<std::size_t>(layout_.registers()), 0);
    const std::size_t width = rows_.front().size();
    for (std::size_t i = 0; i < rows_.size(); ++i)
      for (std::size_t line = 0; line < width; ++line)
        back[static_cast<std::size_t>(rows_[i][line])] =
            static_cast<std::int64_t>(i * width + line);
    Tuple registers;
    for (std::size_t member = 0; member < out.front().size(); ++member) {
      std::vector<Value> parts;
      for (const Tuple& row : out) parts.push_back(row[member]);
      registers.push_back(l_.regs(l_.concat(parts), back));
    }
    return registers;
  }

  Lowering& l_;
  const LinearLayout& layout_;
  int axis_;
  bool is_reverse_, is_exclusive_;
  Combine combine_;
  Tuple identity_;
  std::vector<std::vector<int>> rows_;
  int lane_bits_, warp_bits_;
};

}  // namespace

void lower_Scan(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const LinearLayout& layout = layout_of(l.from.type(d.results[0]));
  const DType dtype = l.from.type(d.results[0]).dtype();
  const DType wide = is_float(dtype) && size_bits(dtype) < 32 ? DType::f32 : dtype;
  const ReduceKind& kind = reduce_kind(d.attrs.s(AttrName::kind));
  const Value identity = kind.identity(l.b, wide);
  Value value = l.b.cast(l.get(d.operands[0]), wide);
  // Padding follows the last element, so a reverse scan visits it first.
  if (const Value inside = inside_along(l, layout, static_cast<int>(d.attrs.i(AttrName::axis))))
    value = l.b.select(inside, value, identity);
  // The hardware's min or max of NaNs alone is NaN.
  if (is_float(wide) && (kind.op == Opcode::Max || kind.op == Opcode::Min))
    value = l.b.op(kind.op, {value, identity});
  const Combine combine = [&](const Tuple& a, const Tuple& b) {
    return Tuple{l.b.op(kind.op, {a[0], b[0]})};
  };
  const Tuple result = Scanning(l, op, combine, {identity}).run({value});
  l.set(d.results[0], l.b.cast(result[0], dtype));
}

void lower_ScanWith(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const LinearLayout& layout = layout_of(l.from.type(d.results[0]));
  const std::size_t n = d.results.size();
  Combine combine = combine_by_region(l, d.regions[0]);
  Tuple values, identity;
  for (std::size_t i = 0; i < n; ++i) values.push_back(l.get(d.operands[i]));
  for (std::size_t i = n; i < d.operands.size(); ++i) identity.push_back(l.get(d.operands[i]));
  // Padding follows all elements, so it matters only in reverse scans.
  const Value inside = d.attrs.i(AttrName::reverse) != 0
                           ? inside_along(l, layout, static_cast<int>(d.attrs.i(AttrName::axis)))
                           : Value();
  if (inside && !identity.empty()) {
    for (std::size_t i = 0; i < n; ++i) values[i] = l.b.select(inside, values[i], identity[i]);
  } else if (inside) {
    values.push_back(inside);
    combine = combine_valid(l, std::move(combine));
  }
  const Tuple results = Scanning(l, op, std::move(combine), std::move(identity)).run(values);
  for (std::size_t i = 0; i < n; ++i) l.set(d.results[i], results[i]);
}

}  // namespace tegula::codegen
