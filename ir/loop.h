#pragma once
// Accessors for loops (`for`, `while`) and for the values that control flow passes on, so that
// callers need not count operands and region arguments.
#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

constexpr bool is_loop(Opcode o) { return o == Opcode::For || o == Opcode::While; }
constexpr bool is_loop(const OpData& d) { return is_loop(d.opcode); }

/// Returns the number of operands before a loop's initial values: lo, hi and step of a `for`.
constexpr std::size_t first_init(Opcode o) { return o == Opcode::For ? 3 : 0; }
/// Returns the number of region arguments before a loop's carries: the induction variable of a
/// `for`.
constexpr std::size_t first_carry(Opcode o) { return o == Opcode::For ? 1 : 0; }

/// Returns the initial values of a loop's carries. The span is writable if the op is.
template <class Op>
auto loop_inits(Op& loop) {
  return std::span(loop.operands).subspan(std::min(first_init(loop.opcode), loop.operands.size()));
}
/// Returns the carries as region arguments of one of the loop's regions.
inline std::span<const Value> loop_carries(const Kernel& k, RegionId region) {
  return std::span(k[region].args).subspan(first_carry(k[k[region].owner].opcode));
}
/// Returns the carries as arguments of the loop's body; the other region of a `while` is its
/// condition.
inline std::span<const Value> body_carries(const Kernel& k, OpId loop) {
  return loop_carries(k, k[loop].regions.back());
}
/// Returns the values that the body yields: the carries of the next iteration. The span is writable
/// if the kernel is.
template <class AnyKernel>
auto loop_nexts(AnyKernel& k, OpId loop) {
  return std::span(k[k.terminator(k[loop].regions.back())].operands);
}

/// Returns the region of the op that defines the value, or the region of which it is an argument.
inline RegionId home_of(const Kernel& k, Value v) {
  return k[v].def ? k[k[v].def].parent : k[v].region;
}

/// Returns true if the op is in the region, or in one of the regions of `owner`, at any depth.
bool is_inside(const Kernel& k, OpId op, RegionId region);
bool is_inside(const Kernel& k, OpId op, OpId owner);

/// Returns the values that control a loop or branch: bounds and step of a `for`, else the
/// condition.
std::vector<Value> deciding_values(const Kernel& k, OpId op);

/// Returns the carries of a `while` that its condition depends on, in this iteration or a later
/// one, also through memory that the loop writes: all of them if it depends on an op with an
/// effect.
std::vector<std::size_t> condition_carries(const Kernel& k, OpId loop);

/// Appends a carry and returns the body's argument for it. The caller must append the next value to
/// the yield of the body.
Value add_carry(Kernel& k, OpId loop, Value init);

/// Value `index` among those that a loop carries or a branch yields.
struct Merge {
  OpId op;
  std::size_t index = 0;
};
/// Returns the merge of a carry or of a result of a loop or branch; nothing for all other values.
std::optional<Merge> merge_of(const Kernel& k, Value v);
/// Returns the values that a merge combines: a carry's initial value, then what each region yields.
std::vector<Value> incoming_values(const Kernel& k, const Merge& m);

}  // namespace tegula::ir
