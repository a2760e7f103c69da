#pragma once
// Loops (`for`, `while`) and the values that control flow hands on, without counting operands and
// region arguments.
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

constexpr bool is_loop(Opcode o) { return o == Opcode::For || o == Opcode::While; }
constexpr bool is_loop(const OpData& d) { return is_loop(d.opcode); }

/// Operands in front of a loop's initial values: lo, hi and step of a `for`.
constexpr std::size_t first_init(Opcode o) { return o == Opcode::For ? 3 : 0; }
/// Region arguments in front of a loop's carries: the induction variable of a `for`.
constexpr std::size_t first_carry(Opcode o) { return o == Opcode::For ? 1 : 0; }

/// The initial values of a loop's carries. The span is writable if the op is.
template <class Op>
auto loop_inits(Op& loop) {
  return std::span(loop.operands).subspan(std::min(first_init(loop.opcode), loop.operands.size()));
}
/// The carries as a region of the loop sees them.
inline std::span<const Value> loop_carries(const Kernel& k, RegionId region) {
  return std::span(k[region].args).subspan(first_carry(k[k[region].owner].opcode));
}
/// The carries as the loop's body sees them; a `while` has another region, its condition.
inline std::span<const Value> body_carries(const Kernel& k, OpId loop) {
  return loop_carries(k, k[loop].regions.back());
}
/// The values that the body yields: the carries of the next iteration. The span is writable if the
/// kernel is.
template <class AnyKernel>
auto loop_nexts(AnyKernel& k, OpId loop) {
  return std::span(k[k.terminator(k[loop].regions.back())].operands);
}

/// The region of the op that makes the value, or of which it is an argument.
inline RegionId home_of(const Kernel& k, Value v) {
  return k[v].def ? k[k[v].def].parent : k[v].region;
}

/// The values that decide how a loop or a branch goes: bounds of a `for`, the condition of others.
std::vector<Value> deciding_values(const Kernel& k, OpId op);

/// Adds a carry behind the others and gives it as the body sees it; the body yields it once the
/// caller has appended its next value.
Value add_carry(Kernel& k, OpId loop, Value init);

/// Value `index` of those that a loop carries or a branch yields.
struct Merge {
  OpId op;
  std::size_t index = 0;
};
/// The merge behind a carry or a result of a loop or branch; nothing for all other values.
std::optional<Merge> merge_of(const Kernel& k, Value v);
/// The values that a merge takes: a carry's initial value, then what each region yields.
std::vector<Value> incoming_values(const Kernel& k, const Merge& m);

}  // namespace tegula::ir
