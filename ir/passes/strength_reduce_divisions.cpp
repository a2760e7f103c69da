// Division by invariant integers using multiplication (Granlund and Montgomery, 1994). Persistent
// kernels compute the coordinates of each tile by dividing its id by invariant counts, and the
// copies and products of the next tile wait for the result.
//
// Before:  for .. { q = div n, d; r = rem n, d }     where n >= 0, d >= 0, and d is the same
// After:   m = div 0xffffffff, d
//          for .. { q = mulhi n, m; r = n - q * d; if r >= d: q = q + 1, r = r - d }     of u32
//
// Exact for 0 <= n < 2^32 and 1 <= d < 2^32: let m = floor((2^32 - 1) / d). Then m <= 2^32 / d, and
// as d (m + 1) >= 2^32 also m >= 2^32 / d - 1, so
//   n / d >= n m / 2^32 >= n / d - n / 2^32 > n / d - 1.
// The floor of a number between n / d - 1 and n / d is that of n / d or one less. So r is less than
// 2 d, and one step corrects it. (r fits: it is n minus a number between 0 and n.)
// If d is 0, m is poison, as the quotient was; this matters only if it is used.
//
// All groups of tiles but the last have the full number of rows. So a divisor min(x, c) with a
// constant c, which the loop changes, is usually c, and a branch tests for that.
//
// Before:  for .. { q = div n, min(x, c) }
// After:   for .. { q = if x < c { div n, x } else { div n, c } }
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/analysis/facts.h"
#include "ir/analysis/index_facts.h"
#include "ir/clone_op.h"
#include "ir/loop.h"
#include "ir/op.h"
#include "ir/pipeline.h"

namespace tegula::ir {
namespace {

constexpr std::int64_t kAllOnes = 0xffffffff;

class StrengthReduceDivisions {
 public:
  StrengthReduceDivisions(Kernel& k, PassContext& context) : k_(k), context_(context) {}

  bool run() {
    std::vector<OpId> loops;
    const Facts bounds(k_);
    collect(k_.body(), loops, bounds);
    if (found_.empty()) return false;
    context_.remark(Remark::Kind::Applied, k_[found_.front().op].loc,
                    "divisions by loop invariants became multiplications, or by constants",
                    {{"quotients and remainders", std::to_string(found_.size())}});
    for (const Division& f : found_) rewrite(f);
    return true;
  }

 private:
  struct Division {
    OpId op, loop;   ///< outermost loop with an invariant divisor; null: mostly constant
    bool has_signs;  ///< an operand may be negative
  };
  /// min(other, constant), in either order.
  struct MostlyConstant {
    Value other, constant;
  };
  struct Quotient {
    Value quotient, rest;
  };

  /// Collects divisions. `loops`: the loops around the region, outermost first.
  void collect(RegionId region, std::vector<OpId>& loops, const Facts& bounds) {
    for (OpId op : k_.ops(region)) {
      if (divides(op) && !loops.empty()) find(op, loops, bounds);
      const bool loops_around = is_loop(k_[op]);
      if (!loops_around && k_[op].opcode != Opcode::If)
        continue;  // regions of reductions are not changed
      if (loops_around) loops.push_back(op);
      for (RegionId r : k_[op].regions) collect(r, loops, bounds);
      if (loops_around) loops.pop_back();
    }
  }

  bool divides(OpId op) const {
    const OpData& d = k_[op];
    return d.is(Opcode::Div, Opcode::Rem) && !constant_value(k_, d.operands[1]) &&
           (k_.type(d.results[0]) == Type::scalar(DType::i32) ||
            k_.type(d.results[0]) == Type::scalar(DType::u32));
  }

  void find(OpId op, const std::vector<OpId>& loops, const Facts& bounds) {
    const auto has_sign = [&](Value v) {
      return k_.type(v).dtype() != DType::u32 && !bounds.upper_bound(v).has_value();
    };
    const OpData& d = k_[op];
    const bool has_signs = has_sign(d.operands[0]) || has_sign(d.operands[1]);
    if (const auto loop = loop_of(op, loops); loop && !has_signs)
      found_.push_back({op, *loop, false});
    else if (mostly_constant(d.operands[1]) && !is_invariant(d.operands[1], loops.back()))
      found_.push_back({op, OpId(), has_sign(d.operands[0])});
  }

  std::optional<MostlyConstant> mostly_constant(Value v) const {
    const OpId def = k_[v].def;
    if (!def || k_[def].opcode != Opcode::Min) return std::nullopt;
    for (std::size_t i = 0; i < 2; ++i)
      if (const auto c = constant_value(k_, k_[def].operands[i]); c && *c > 0)
        return MostlyConstant{k_[def].operands[1 - i], k_[def].operands[i]};
    return std::nullopt;
  }

  /// Returns the outermost loop around the op in which the divisor is invariant. Returns nothing if
  /// no such loop changes the dividend: the division is then done once wherever it is, or is left
  /// to the back end.
  std::optional<OpId> loop_of(OpId op, const std::vector<OpId>& loops) {
    const OpData& d = k_[op];
    const auto changes = [&](Value v) {
      return std::ranges::find_if(loops.rbegin(), loops.rend(),
                                  [&](OpId loop) { return !is_invariant(v, loop); });
    };
    const auto divisor = changes(d.operands[1]), dividend = changes(d.operands[0]);
    // Loops inside the innermost one that changes the divisor.
    if (divisor - loops.rbegin() <= dividend - loops.rbegin()) return std::nullopt;
    return *std::prev(divisor);
  }

  /// Returns true if the value is computed before the loop, or can be recomputed there. Divisions
  /// can be recomputed: a quotient by 0 is poison, which is harmless unless it is used.
  bool is_invariant(Value v, OpId loop) {
    const auto [it, is_new] = invariant_.try_emplace({v.index, loop.index}, false);
    if (is_new) it->second = k_.is_visible_from(v, loop) || is_computable_before(v, loop);
    return it->second;
  }
  bool is_computable_before(Value v, OpId loop) {
    const OpId def = k_[v].def;
    if (!def) return false;
    const OpData& d = k_[def];
    return is_movable(d) && k_.type(v).is_scalar() &&
           std::ranges::all_of(d.operands, [&](Value o) { return is_invariant(o, loop); });
  }

  /// Returns a copy of the value before the loop. It is a copy because values that the loop
  /// computes from kernel arguments would take registers throughout, and registers are scarce in
  /// tile loops.
  Value copy_before(Builder& b, Value v, OpId loop) {
    ValueMap copies;
    return clone_computation(b, v, copies,
                             [&](Value o) { return k_.is_visible_from(o, loop) ? o : Value(); });
  }

  static Value as(Builder& b, Value v, DType dtype) {
    if (b.kernel().type(v).dtype() == dtype) return v;
    return b.op(Opcode::Bitcast, {v}, Type::scalar(dtype));
  }

  Value reciprocal(Value d, OpId loop, Loc loc) {
    const auto [it, is_new] = reciprocals_.try_emplace({d.index, loop.index});
    if (!is_new) return it->second;
    Builder b(k_, loop);
    b.loc = loc;
    const Value divisor = as(b, copy_before(b, d, loop), DType::u32);
    return it->second = b.div(b.constant(Type::scalar(DType::u32), kAllOnes), divisor);
  }

  Quotient divide(Builder& b, Value dividend, Value divisor, Value reciprocal) {
    const Value n = as(b, dividend, DType::u32), d = as(b, divisor, DType::u32);
    const Value estimate = b.op(Opcode::MulHi, {n, reciprocal});
    const Value rest = b.sub(n, b.mul(estimate, d));
    const Value is_less = b.cmp("ge", rest, d);  // the estimate is less than the quotient by one
    const Value one = b.constant(Type::scalar(DType::u32), std::int64_t{1});
    return {b.select(is_less, b.add(estimate, one), estimate),
            b.select(is_less, b.sub(rest, d), rest)};
  }

  /// Divides by the constant, unsigned if the dividend has no sign: usually a shift.
  Quotient divide_by(Builder& b, Value n, const MostlyConstant& by, bool has_sign) {
    const DType own = k_.type(n).dtype();
    const Type types[] = {k_.type(n), k_.type(n)};
    const OpId branch = b.make_if(b.cmp("lt", by.other, by.constant), types);
    Builder rare(k_, k_[branch].regions[0]), usual(k_, k_[branch].regions[1]);
    rare.loc = usual.loc = b.loc;
    const Value of_rare[] = {rare.div(n, by.other), rare.rem(n, by.other)};
    rare.yield(of_rare);
    const DType dtype = has_sign ? own : DType::u32;
    const Value x = as(usual, n, dtype), c = as(usual, by.constant, dtype);
    const Value q = as(usual, usual.div(x, c), own), r = as(usual, usual.rem(x, c), own);
    const Value of_usual[] = {q, r};
    usual.yield(of_usual);
    return {k_[branch].results[0], k_[branch].results[1]};
  }

  /// Called in program order: the multiplier of an earlier division is visible to a later one, or
  /// is in another branch.
  void rewrite(const Division& f) {
    const Value n = k_[f.op].operands[0], d = k_[f.op].operands[1], result = k_[f.op].results[0];
    const DType dtype = k_.type(result).dtype();
    Builder b(k_, f.op);
    const auto [it, is_new] = quotients_.try_emplace({n.index, d.index});
    if (is_new || !k_.is_visible_from(it->second.quotient, f.op))
      it->second = f.loop ? divide(b, n, d, reciprocal(d, f.loop, b.loc))
                          : divide_by(b, n, *mostly_constant(d), f.has_signs);
    const bool is_quotient = k_[f.op].opcode == Opcode::Div;
    k_.replace_all_uses(result, as(b, is_quotient ? it->second.quotient : it->second.rest, dtype));
    k_.erase(f.op);
  }

  Kernel& k_;
  PassContext& context_;
  std::vector<Division> found_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, bool> invariant_;      ///< by value and loop
  std::map<std::pair<std::uint32_t, std::uint32_t>, Value> reciprocals_;   ///< by value and loop
  std::map<std::pair<std::uint32_t, std::uint32_t>, Quotient> quotients_;  ///< by operands
};

}  // namespace

bool strength_reduce_divisions(Kernel& kernel, PassContext& context) {
  return StrengthReduceDivisions(kernel, context).run();
}

}  // namespace tegula::ir
