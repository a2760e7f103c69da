#include "ir/analysis/loop_end.h"

#include <cstdint>

#include "ir/analysis/index_facts.h"

namespace tegula::ir {
namespace {

/// Returns to - from for two i32 with from <= to.
Value distance(Builder& b, Value from, Value to) { return b.cast(b.sub(to, from), DType::u32); }

}  // namespace

bool may_pass_indices(const Facts& facts, const Kernel& k, OpId loop, std::int64_t steps) {
  const auto& bounds = k[loop].operands;
  // No practical loop gets near the end of the 64-bit range.
  if (size_bits(k.type(bounds[1]).dtype()) > 32) return false;
  const auto step = constant_value(k, bounds[2]);
  if (!step || *step <= 0) return true;
  // The last index is below the end.
  const std::int64_t ahead = *step * steps - 1;
  return ahead > 0 && !facts.is_at_most(bounds[1], INT32_MAX - ahead, loop);
}

Value next_index(Builder& b, OpId loop, Value index) {
  const Value hi = b.kernel()[loop].operands[1], step = b.kernel()[loop].operands[2];
  const Value goes_on = b.cmp("lt", b.cast(step, DType::u32), distance(b, index, hi));
  return b.select(goes_on, b.add(index, step), hi);
}

Value has_iteration(Builder& b, OpId loop, Value index, bool may_pass) {
  const Value lo = b.kernel()[loop].operands[0], hi = b.kernel()[loop].operands[1];
  const Value is_below_end = b.cmp("lt", index, hi);
  return may_pass ? b.op(Opcode::And, {is_below_end, b.cmp("ge", index, lo)}) : is_below_end;
}

Value trip_count(Builder& b, Value lo, Value hi, Value step) {
  const Value one = b.constant(Type::scalar(DType::u32), std::int64_t{1});
  const Value more = b.div(b.sub(distance(b, lo, hi), one), b.cast(step, DType::u32));
  return b.select(b.cmp("lt", lo, hi), b.cast(b.add(more, one), DType::i32), b.i32(0));
}

}  // namespace tegula::ir
