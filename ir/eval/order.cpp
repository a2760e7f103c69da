// Sorts and ranks by their definitions: a stable sort of each line, and counting.
#include <algorithm>
#include <numeric>

#include "ir/eval/fold.h"
#include "ir/eval/number.h"
#include "ir/eval/program.h"

namespace tegula::ir::interp {
namespace {

/// Sort classes: numbers come first, absent elements last.
enum Class : std::uint8_t { kNumber, kNotANumber, kNowhere };

class Sorting {
 public:
  Sorting(Program& p, OpId id)
      : p_(p),
        id_(id),
        dtype_(p.operand_type(id, 0).dtype()),
        shape_(p.operand_type(id, 0).shape(), p.attrs(id).i(AttrName::axis)),
        kept_(static_cast<std::size_t>(
            p.result_type(id, 0).shape()[static_cast<std::size_t>(p.attrs(id).i(AttrName::axis))])),
        is_descending_(p.attrs(id).i(AttrName::descending) != 0),
        cells_(p.dense(p.op(id).operands[0])),
        states_(p.states(p.op(id).operands[0])) {
    if (p.op(id).operands.size() > 1) present_ = p.dense(p.op(id).operands[1]);
    for (std::size_t i = 0; i < 2; ++i)
      p.result(id, i).reset(static_cast<std::size_t>(p.result_type(id, i).count()));
    mark_edges();
  }

  void run() {
    for (std::size_t o = 0; o < shape_.outer; ++o)
      for (std::size_t j = 0; j < shape_.inner; ++j) line(o, j);
  }

 private:
  std::size_t at(std::size_t o, std::size_t k, std::size_t j) const {
    return (o * shape_.extent + k) * shape_.inner + j;
  }
  bool has(std::size_t i, std::uint8_t state) const {
    return states_ != nullptr && (states_[i] & state) != 0;
  }

  /// Marks the end of the result's axis as absent: coordinates along the axis that are outside the
  /// tensor in every line are sorted last.
  void mark_edges() {
    const TileValue& in = p_.operand(id_, 0);
    if (in.edges.empty()) return;
    const auto shape = p_.operand_type(id_, 0).shape();
    const auto axis = static_cast<std::size_t>(p_.attrs(id_).i(AttrName::axis));
    std::vector<std::uint8_t> edges;
    auto from = in.edges.begin();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto to = from + shape[d];
      if (d == axis) {
        const auto present = static_cast<std::size_t>(std::count(from, to, 0));
        for (std::size_t k = 0; k < kept_; ++k) edges.push_back(k >= present ? 1 : 0);
      } else {
        edges.insert(edges.end(), from, to);
      }
      from = to;
    }
    for (std::size_t i = 0; i < 2; ++i) p_.result(id_, i).edges = edges;
  }

  Class class_of(std::size_t i) const {
    if (has(i, kAbsent) || (present_ != nullptr && present_[i].i == 0)) return kNowhere;
    return is_float(dtype_) && cells_[i].f != cells_[i].f ? kNotANumber : kNumber;
  }

  bool is_less(Cell a, Cell b) const {
    if (is_float(dtype_)) return a.f < b.f;
    if (dtype_ == DType::u64)
      return static_cast<std::uint64_t>(a.i) < static_cast<std::uint64_t>(b.i);
    return a.i < b.i;
  }

  bool sorts_before(std::size_t a, std::size_t b) const {
    const Class of_a = class_of(a), of_b = class_of(b);
    if (of_a != of_b || of_a != kNumber) return of_a < of_b;
    return is_descending_ ? is_less(cells_[b], cells_[a]) : is_less(cells_[a], cells_[b]);
  }

  Cell plain(std::size_t i) const {
    if (class_of(i) == kNowhere) return is_float(dtype_) ? float_cell(0) : int_cell(0);
    if (!is_float(dtype_)) return cells_[i];
    return float_cell(class_of(i) == kNotANumber ? kNaN : cells_[i].f + 0.0);
  }

  void line(std::size_t o, std::size_t j) {
    std::vector<std::size_t> order(shape_.extent);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return sorts_before(at(o, a, j), at(o, b, j));
    });
    bool is_poisoned = false;
    for (std::size_t k : order)
      is_poisoned |= !has(at(o, k, j), kAbsent) && has(at(o, k, j), kPoison);
    TileValue &values = p_.result(id_, 0), &indices = p_.result(id_, 1);
    for (std::size_t k = 0; k < kept_; ++k) {
      const std::size_t to = (o * kept_ + k) * shape_.inner + j, from = at(o, order[k], j);
      const bool is_nowhere = class_of(from) == kNowhere;
      values.cells[to] = plain(from);
      indices.cells[to] = int_cell(is_nowhere ? 0 : static_cast<std::int64_t>(order[k]));
      const std::uint8_t state = has(from, kAbsent) ? kAbsent : is_poisoned ? kPoison : 0;
      if (state == 0) continue;
      values.add_state(to, state);
      indices.add_state(to, state);
    }
  }

  Program& p_;
  OpId id_;
  DType dtype_;
  AxisShape shape_;
  std::size_t kept_;
  bool is_descending_;
  const Cell* cells_;
  const std::uint8_t* states_;
  const Cell* present_ = nullptr;
};

}  // namespace

void eval_Sort(Program& p, OpId id) { Sorting(p, id).run(); }

void eval_KeyRanks(Program& p, OpId id) {
  const auto n = static_cast<std::size_t>(p.operand_type(id, 0).count());
  const std::int64_t bins = p.attrs(id).i(AttrName::count);
  const Cell* keys = p.dense(p.op(id).operands[0]);
  const std::uint8_t* states = p.states(p.op(id).operands[0]);
  TileValue &ranks = p.result(id, 0), &counts = p.result(id, 1);
  ranks.reset(n);
  ranks.edges = p.operand(id, 0).edges;
  counts.reset(static_cast<std::size_t>(bins));
  std::ranges::fill(counts.cells, int_cell(0));
  bool is_poisoned = false;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint8_t state = states == nullptr ? 0 : states[i];
    ranks.cells[i] = int_cell(-1);
    if ((state & kAbsent) != 0) {
      ranks.add_state(i, kAbsent);
      continue;
    }
    is_poisoned |= (state & kPoison) != 0;
    if (is_poisoned) ranks.add_state(i, kPoison);
    if (keys[i].i < 0 || keys[i].i >= bins) continue;
    ranks.cells[i] = int_cell(counts.cells[static_cast<std::size_t>(keys[i].i)].i++);
  }
  for (std::size_t bin = 0; is_poisoned && bin < counts.cells.size(); ++bin)
    counts.add_state(bin, kPoison);
}

}  // namespace tegula::ir::interp
