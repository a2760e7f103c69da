// reduce_with and scan_with: folds by a region. An elementwise region runs once per index along the
// axis, for all other elements at once; each of its scalars then has one cell per lane.
#include <algorithm>

#include "ir/eval/fold.h"
#include "ir/eval/program.h"

namespace tegula::ir::interp {
namespace {

bool is_elementwise(const Kernel& k, RegionId region) {
  const auto ops = k.ops(region);
  for (OpId op : ops)
    if (!info(k[op].opcode).is_elementwise() &&
        !k[op].is(Opcode::Const, Opcode::Poison, Opcode::Yield))
      return false;
  return true;
}

class RegionFold {
 public:
  RegionFold(Program& p, OpId id)
      : p_(p),
        id_(id),
        region_(p.op(id).regions[0]),
        count_(p.op(id).results.size()),
        shape_(p.operand_type(id, 0).shape(), p.attrs(id).i(AttrName::axis)),
        is_reverse_(p.attrs(id).i(AttrName::reverse) != 0),
        is_exclusive_(p.attrs(id).i(AttrName::exclusive) != 0) {
    for (std::size_t i = 0; i < count_; ++i) p.dense(p.op(id).operands[i]);
    for (std::size_t i = 0; i < count_; ++i) join_states(i);
    left_.resize(count_);
  }

  void scan() {
    for (std::size_t i = 0; i < count_; ++i) {
      TileValue& out = p_.result(id_, i);
      out.reset(static_cast<std::size_t>(p_.operand_type(id_, i).count()));
      for (std::size_t o = 0; o < count_; ++o) out.join_edges(p_.operand(id_, o).edges);
    }
    for (std::size_t first = 0; first < lanes(); first += batch()) scan_lanes(first, batch());
  }

  void run() {
    for (std::size_t i = 0; i < count_; ++i) {
      TileValue& out = p_.result(id_, i);
      out.reset(lanes());
      // Coordinates that one operand lacks are edges of every result.
      for (std::size_t o = 0; o < count_; ++o)
        out.join_edges(edges_without(p_.operand(id_, o).edges, p_.operand_type(id_, o).shape(),
                                     p_.attrs(id_).i(AttrName::axis)));
    }
    for (std::size_t first = 0; first < lanes(); first += batch()) fold_lanes(first, batch());
  }

 private:
  std::size_t lanes() const { return shape_.outer * shape_.inner; }
  std::size_t batch() const { return is_elementwise(p_.kernel(), region_) ? lanes() : 1; }

  /// An element takes part only if it is present in every operand.
  void join_states(std::size_t operand) {
    const std::uint8_t* states = p_.states(p_.op(id_).operands[operand]);
    if (states == nullptr) return;
    const auto count = static_cast<std::size_t>(p_.operand_type(id_, operand).count());
    absent_.resize(count, 0);
    for (std::size_t i = 0; i < count; ++i) absent_[i] |= states[i] & kAbsent;
  }

  std::size_t element(std::size_t lane, std::size_t k) const {
    return (lane / shape_.inner * shape_.extent + k) * shape_.inner + lane % shape_.inner;
  }
  bool is_absent(std::size_t lane, std::size_t k) const {
    return !absent_.empty() && absent_[element(lane, k)] != 0;
  }

  void take(std::size_t operand, std::size_t k, std::size_t first, std::size_t batch,
            TileValue& out) {
    const TileValue& in = p_.operand(id_, operand);
    out.reset(batch);
    out.origin = in.origin;
    for (std::size_t lane = 0; lane < batch; ++lane) {
      const std::size_t from = element(first + lane, k);
      out.cells[lane] = in.cells[from];
      if ((in.state(from) & kPoison) != 0) out.add_state(lane, kPoison);
    }
  }

  void fold_lanes(std::size_t first, std::size_t batch) {
    is_empty_.assign(batch, 0);
    for (std::size_t i = 0; i < count_; ++i) take(i, 0, first, batch, left_[i]);
    for (std::size_t lane = 0; lane < batch; ++lane) is_empty_[lane] = is_absent(first + lane, 0);
    for (std::size_t k = 1; k < shape_.extent; ++k) step(k, first, batch);
    for (std::size_t i = 0; i < count_; ++i) {
      TileValue& out = p_.result(id_, i);
      if (!out.origin) out.origin = left_[i].origin;
      for (std::size_t lane = 0; lane < batch; ++lane) {
        out.cells[first + lane] = left_[i].cells[lane];
        const std::uint8_t state =
            is_empty_[lane] != 0 ? std::uint8_t{kAbsent} : left_[i].state(lane);
        if (state != 0) out.add_state(first + lane, state);
      }
    }
  }

  /// Starts a scan from the identities, or empty.
  void begin_scan(std::size_t batch) {
    is_empty_.assign(batch, is_exclusive_ ? 0 : 1);
    for (std::size_t i = 0; i < count_; ++i) {
      left_[i].reset(batch);
      if (!is_exclusive_) continue;
      const TileValue& identity = p_.operand(id_, count_ + i);
      for (std::size_t lane = 0; lane < batch; ++lane) {
        left_[i].cells[lane] = identity.cells[0];
        if (identity.state(0) != 0) left_[i].add_state(lane, identity.state(0));
      }
    }
  }

  void scan_lanes(std::size_t first, std::size_t batch) {
    begin_scan(batch);
    for (std::size_t i = 0; i < shape_.extent; ++i) {
      const std::size_t k = is_reverse_ ? shape_.extent - 1 - i : i;
      if (is_exclusive_) put(k, first, batch);
      step(k, first, batch);
      if (!is_exclusive_) put(k, first, batch);
    }
  }

  /// Stores the running fold to element k of the results where all operands are present.
  void put(std::size_t k, std::size_t first, std::size_t batch) {
    for (std::size_t i = 0; i < count_; ++i) {
      TileValue& out = p_.result(id_, i);
      if (!out.origin) out.origin = left_[i].origin;
      for (std::size_t lane = 0; lane < batch; ++lane) {
        const std::size_t to = element(first + lane, k);
        out.cells[to] = left_[i].cells[lane];
        const std::uint8_t state =
            is_absent(first + lane, k) ? std::uint8_t{kAbsent} : left_[i].state(lane);
        if (state != 0) out.add_state(to, state);
      }
    }
  }

  void step(std::size_t k, std::size_t first, std::size_t batch) {
    const auto& args = p_.kernel()[region_].args;
    const std::size_t running = is_reverse_ ? count_ : 0, next = is_reverse_ ? 0 : count_;
    for (std::size_t i = 0; i < count_; ++i) {
      p_.value(args[running + i]) = left_[i];
      take(i, k, first, batch, p_.value(args[next + i]));
    }
    const OpId yield = p_.run_region(region_);
    for (std::size_t i = 0; i < count_; ++i) {
      const TileValue& combined = p_.operand(yield, i);
      const TileValue& right = p_.value(args[next + i]);
      if (!left_[i].origin) left_[i].origin = combined.origin;
      for (std::size_t lane = 0; lane < batch; ++lane) {
        if (is_absent(first + lane, k)) continue;
        const TileValue& from = is_empty_[lane] != 0 ? right : combined;
        const std::uint8_t state = from.state(lane);
        left_[i].cells[lane] = from.cells[lane * from.stride()];
        if (state != 0 || !left_[i].states.empty()) {
          left_[i].add_state(lane, 0);
          left_[i].states[lane] = state;
        }
      }
    }
    for (std::size_t lane = 0; lane < batch; ++lane)
      if (!is_absent(first + lane, k)) is_empty_[lane] = 0;
  }

  Program& p_;
  OpId id_;
  RegionId region_;
  std::size_t count_;
  AxisShape shape_;
  bool is_reverse_, is_exclusive_;  ///< of a scan
  std::vector<std::uint8_t> absent_;
  std::vector<TileValue> left_;
  std::vector<std::uint8_t> is_empty_;  ///< lanes without a present element so far
};

}  // namespace

void eval_ReduceWith(Program& p, OpId id) { RegionFold(p, id).run(); }
void eval_ScanWith(Program& p, OpId id) { RegionFold(p, id).scan(); }

}  // namespace tegula::ir::interp
