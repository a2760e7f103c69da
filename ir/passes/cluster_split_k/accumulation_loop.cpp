#include "ir/passes/cluster_split_k/accumulation_loop.h"

#include <map>
#include <set>

#include "ir/analysis/index_facts.h"
#include "ir/loop.h"

namespace tegula::ir {

namespace {

/// The op adds to its operand `i`, and its result is the sum.
bool adds_to(const OpData& d, std::size_t i) {
  using enum Opcode;
  return (d.opcode == Dot && i == 2) || d.opcode == Add || (d.opcode == Sub && i == 0) ||
         (d.opcode == Fma && i == 2);
}

class AccumulationLoop {
 public:
  AccumulationLoop(const Kernel& k, const Uses& uses) : k_(k), uses_(uses) {}

  /// Follows the carry from one sum to the next, through loops that carry it on. As every sum is
  /// only added to, no term is computed from one.
  bool is_sum(OpId loop, std::size_t carry) {
    followed_[loop].insert(carry);
    const RegionId body = k_[loop].regions[0];
    Value v = body_carries(k_, loop)[carry];
    for (auto use = uses_.only(v); use; use = uses_.only(v)) {
      const OpData& d = k_[use->op];
      if (d.parent != body) return false;
      if (d.opcode == Opcode::Yield) return use->operand == carry;
      std::size_t result = 0;
      if (d.opcode == Opcode::For && use->operand >= first_init(d.opcode)) {
        result = use->operand - first_init(d.opcode);
        if (!is_sum(use->op, result)) return false;
      } else if (adds_to(d, use->operand)) {
        accumulation_loops_.insert(loop);
      } else {
        return false;
      }
      v = d.results[result];
    }
    return false;
  }

  const std::set<OpId>& accumulation_loops() const { return accumulation_loops_; }

  std::string_view why_not() const {
    for (OpId loop : accumulation_loops_) {
      const auto step = constant_value(k_, k_[loop].operands[2]);
      if (!step || *step <= 0) return "the iterations of its mainloop have no constant length";
      if (followed_.at(loop).size() != k_[loop].results.size())
        return "its mainloop carries more than accumulators";
      for (OpId around = k_[k_[loop].parent].owner; around; around = k_[k_[around].parent].owner)
        if (accumulation_loops_.contains(around)) return "nested loops add to its accumulators";
    }
    return "";
  }

 private:
  const Kernel& k_;
  const Uses& uses_;
  std::map<OpId, std::set<std::size_t>> followed_;
  std::set<OpId> accumulation_loops_;
};

}  // namespace

std::string_view why_not_accumulation(const Kernel& k, const Uses& uses, OpId loop,
                                      std::vector<OpId>& accumulation_loops) {
  AccumulationLoop summed(k, uses);
  for (std::size_t i = 0; i < k[loop].results.size(); ++i)
    if (!summed.is_sum(loop, i)) return "its mainloop carries more than accumulators";
  accumulation_loops.insert(accumulation_loops.end(), summed.accumulation_loops().begin(),
                            summed.accumulation_loops().end());
  return summed.why_not();
}

void keep_k_slice(Kernel& k, OpId loop, Value rank, int parts) {
  Builder b(k, loop);
  const Value lo = k[loop].operands[0], hi = k[loop].operands[1], step = k[loop].operands[2];
  const Type type = k.type(lo);
  const std::int64_t block = *constant_value(k, step);
  const auto number = [&](std::int64_t n) { return b.constant(type, n); };
  const Value all = is_zero(k, lo) ? hi : b.sub(hi, lo),
              count = b.div(b.add(all, number(block - 1)), step),
              most = b.div(b.add(count, number(parts - 1)), number(parts)),
              extent = b.mul(most, step), before = b.mul(b.cast(rank, type.dtype()), extent),
              first = is_zero(k, lo) ? before : b.add(lo, before);
  k[loop].operands[0] = first;
  k[loop].operands[1] = b.op(Opcode::Min, {b.add(first, extent), hi});
}

}  // namespace tegula::ir
