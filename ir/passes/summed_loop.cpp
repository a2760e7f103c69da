#include "ir/passes/summed_loop.h"

#include "ir/analysis/bounds.h"

namespace tegula::ir {

namespace {

/// The op adds to its operand `i`, and its result is the sum.
bool adds_to(const OpData& d, std::size_t i) {
  using enum Opcode;
  return (d.opcode == Dot && i == 2) || d.opcode == Add || (d.opcode == Sub && i == 0) ||
         (d.opcode == Fma && i == 2);
}

/// Follows the carry from one sum to the next. As every sum is only added to, no term is computed
/// from one.
bool is_sum(const Kernel& k, const Uses& uses, OpId loop, std::size_t carry) {
  const RegionId body = k[loop].regions[0];
  Value v = k[body].args[kFirstCarry + carry];
  for (auto use = uses.only(v); use; use = uses.only(v)) {
    const OpData& d = k[use->op];
    if (d.parent != body) return false;
    if (d.opcode == Opcode::Yield) return use->operand == carry;
    if (!adds_to(d, use->operand)) return false;
    v = d.results[0];
  }
  return false;
}

}  // namespace

std::string_view why_not_summed(const Kernel& k, const Uses& uses, OpId loop) {
  const auto step = as_constant(k, k[loop].operands[2]);
  if (!step || *step <= 0) return "the steps of its loop of products have no constant length";
  for (std::size_t i = 0; i < k[loop].results.size(); ++i)
    if (!is_sum(k, uses, loop, i))
      return "its loop of products carries more than sums that steps add to";
  return "";
}

void keep_part_of_steps(Kernel& k, OpId loop, Value rank, int parts) {
  Builder b(k);
  b.before(loop);
  b.loc = k[loop].loc;
  const Value lo = k[loop].operands[0], hi = k[loop].operands[1], step = k[loop].operands[2];
  const Type type = k.type(lo);
  const std::int64_t block = *as_constant(k, step);
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
