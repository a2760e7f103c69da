// The derivatives of branches and loops: the region is computed again, with its adjoints.
#include <algorithm>
#include <optional>

#include "ir/analysis/index_facts.h"
#include "ir/loop.h"
#include "ir/vjp.h"

namespace tegula::ir {
namespace {

constexpr std::int64_t kUnrolled = 8;  ///< iterations of the longest loop that is unrolled

void require_no_effects(const Vjp& v) {
  const Kernel& k = v.b.kernel();
  for (const RegionId r : v.op.regions)
    if (any_op(k, r, [&](OpId o) { return info(k[o].opcode).has(kWrites | kEffects); }))
      v.refuse("has no derivative: it has effects, and would be computed again");
}

/// Clones an op with its regions and returns the copy.
OpId clone_whole(Vjp& v, ValueMap& map) {
  clone_op(v.b, v.id, map);
  return v.b.kernel()[map.at(v.op.results[0])].def;
}

std::vector<Value> operands_of(const Kernel& k, OpId op) {
  return {k[op].operands.begin(), k[op].operands.end()};
}

/// A loop of constant bounds.
struct Range {
  std::int64_t first, step, trips;
};

std::optional<Range> range_of(const Kernel& k, const OpData& loop) {
  const auto lo = constant_value(k, loop.operands[0]), hi = constant_value(k, loop.operands[1]),
             step = constant_value(k, loop.operands[2]);
  if (!lo || !hi || !step || *step <= 0) return std::nullopt;
  return Range{*lo, *step, std::max<std::int64_t>(0, (*hi - *lo + *step - 1) / *step)};
}

void unroll(Vjp& v, const Range& range) {
  Kernel& k = v.b.kernel();
  const RegionId body = v.op.regions[0];
  const std::vector<Value> inputs = v.sweep.active_inputs(v.id);
  std::vector<Value> carries(v.op.operands.begin() + 3, v.op.operands.end());
  const OpId yield = k.terminator(body);
  for (std::int64_t n = 0; n < range.trips; ++n) {
    ValueMap map;
    map[k[body].args[0]] = v.b.constant(k.type(v.op.operands[0]), range.first + n * range.step);
    for (std::size_t i = 0; i < carries.size(); ++i) map[k[body].args[i + 1]] = carries[i];
    for (OpId op = k[body].first; op != yield; op = k[op].next) clone_op(v.b, op, map);
    for (std::size_t i = 0; i < carries.size(); ++i) carries[i] = mapped(map, k[yield].operands[i]);
  }
  Sweep s(v.b, v.sweep.type, inputs,
          v.sweep.place == Sweep::Place::Top ? Sweep::Place::Unrolled : v.sweep.place);
  for (std::size_t i = 0; i < carries.size(); ++i)
    if (v.adjoints[i]) s.seed(carries[i], v.adjoints[i]);
  s.run();
  for (const Value input : inputs)
    if (const Value adjoint = s.of(input)) v.give_input(input, adjoint);
  for (const LoadAdjoint& l : s.loads)
    v.sweep.loads.push_back({l.param, l.load, v.counted(l.adjoint)});
}

/// The term that a loop adds to one of its carries in each iteration.
struct Term {
  Value value;
  bool is_subtracted = false;
};

/// Returns the term of a carry whose only use is a sum or difference that is its next value.
std::optional<Term> term_of(const Kernel& k, OpId loop, std::size_t i) {
  const RegionId body = k[loop].regions[0];
  const Value carry = k[body].args[i + 1], next = loop_nexts(k, loop)[i];
  const OpId def = k[next].def;
  if (!def || k[def].parent != body || !k[def].is(Opcode::Add, Opcode::Sub)) return std::nullopt;
  std::ptrdiff_t uses = 0;
  walk(k, body, [&](OpId op) { uses += std::ranges::count(k[op].operands, carry); });
  const auto& operands = k[def].operands;
  if (uses != 1 || (operands[0] != carry && operands[1] != carry)) return std::nullopt;
  if (operands[0] == carry) return Term{operands[1], k[def].opcode == Opcode::Sub};
  return k[def].opcode == Opcode::Add ? std::optional(Term{operands[0]}) : std::nullopt;
}

/// Returns true if a value of the body depends on a carry, except on integers by steps.
bool depends_on_carries(Vjp& v, Value value) {
  Sweep s(v.b, v.sweep.type, body_carries(v.b.kernel(), v.id), Sweep::Place::Region);
  s.find_active(std::span(&value, 1));
  return s.is_active(value);
}

void sum_terms(Vjp& v) {
  Kernel& k = v.b.kernel();
  const std::vector<Value> inputs = v.sweep.active_inputs(v.id);
  std::vector<std::optional<Term>> terms(v.adjoints.size());
  for (std::size_t i = 0; i < v.adjoints.size(); ++i) {
    if (!v.adjoints[i] || !v.sweep.is_active(v.op.results[i])) continue;
    terms[i] = term_of(k, v.id, i);
    if (!terms[i] || depends_on_carries(v, terms[i]->value))
      v.refuse("has no derivative: it carries what is not a sum, through more than 8 iterations");
  }
  ValueMap map;
  const OpId loop = clone_whole(v, map), yield = k.terminator(k[loop].regions[0]);
  Builder inside(k, yield), before(k, loop);
  Sweep s(inside, v.sweep.type, inputs, Sweep::Place::Region);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (!terms[i]) continue;
    v.give(i + 3, v.adjoints[i]);
    s.seed(mapped(map, terms[i]->value),
           terms[i]->is_subtracted ? before.op(Opcode::Neg, {v.adjoints[i]}) : v.adjoints[i]);
  }
  s.run();
  for (const Value input : inputs) {
    const Value adjoint = s.of(input);
    if (!adjoint) continue;
    const Value sum = add_carry(k, loop, before.zero(k.type(adjoint)));
    const Value next = inside.add(sum, adjoint);
    k[yield].operands.push_back(next);
    v.give_input(input, k[loop].results.back());
  }
}

}  // namespace

void vjp_If(Vjp& v) {
  require_no_effects(v);
  Kernel& k = v.b.kernel();
  const std::vector<Value> inputs = v.sweep.active_inputs(v.id);
  ValueMap map;
  const OpId branch = clone_whole(v, map);
  k[branch].results.clear();
  std::vector<std::vector<Value>> found;
  std::vector<OpId> yields;
  for (const RegionId r : std::vector(k[branch].regions.begin(), k[branch].regions.end())) {
    const OpId yield = yields.emplace_back(k.terminator(r));
    Builder inside(k, yield);
    Sweep s(inside, v.sweep.type, inputs, Sweep::Place::Region);
    const std::vector<Value> outputs = operands_of(k, yield);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (v.adjoints[i]) s.seed(outputs[i], v.adjoints[i]);
    s.run();
    k[yield].operands.clear();
    std::vector<Value>& of = found.emplace_back();
    for (const Value input : inputs) of.push_back(s.of(input));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!found[0][i] && !found[1][i]) continue;
    const Type type = k.type(inputs[i]).with_dtype(v.sweep.type);
    for (std::size_t side = 0; side < yields.size(); ++side) {
      Builder inside(k, yields[side]);
      const Value given = found[side][i] ? found[side][i] : inside.zero(type);
      k[yields[side]].operands.push_back(given);
    }
    v.give_input(inputs[i], k.add_result(branch, type));
  }
}

void vjp_For(Vjp& v) {
  require_no_effects(v);
  const auto range = range_of(v.b.kernel(), v.op);
  if (range && range->trips <= kUnrolled) return unroll(v, *range);
  sum_terms(v);
}

}  // namespace tegula::ir
