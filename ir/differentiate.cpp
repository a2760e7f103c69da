#include "ir/differentiate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ir/vjp.h"
#include "support/errors.h"

namespace tegula::ir {
namespace {

struct VjpRow {
  enum class Kind : std::uint8_t { Refused, Inactive, Rule };
  Kind kind = Kind::Refused;
  void (*rule)(Vjp&) = nullptr;
  const char* why = "has no derivative";
};

#define VJP(Name) constexpr VjpRow kRowOf##Name{VjpRow::Kind::Rule, &vjp_##Name, ""};
#define INACTIVE(Name, why) constexpr VjpRow kRowOf##Name{VjpRow::Kind::Inactive, nullptr, why};
#define REFUSED(Name, why) constexpr VjpRow kRowOf##Name{VjpRow::Kind::Refused, nullptr, why};
#include "ir/vjp.def"

constexpr std::array kRows{
#define ROW(Name, ...) kRowOf##Name,
#define MACHINE_OP(...) VjpRow{},
#define SIMT_OP(...) VjpRow{},
#include "ir/op_rows.h"
};

const VjpRow& row_of(Opcode op) { return kRows[static_cast<std::size_t>(op)]; }

bool is_number(Type t) { return !t.is_view() && !t.is_pointer() && is_float(t.dtype()); }

bool same_shape(Type a, Type b) { return std::ranges::equal(a.shape(), b.shape()); }

/// Returns true if the results depend on operand i by more than steps.
bool follows(const Kernel& k, const OpData& d, std::size_t i) {
  if (row_of(d.opcode).kind == VjpRow::Kind::Inactive) return false;
  if (d.opcode == Opcode::LoadView) return i == 0;
  if (d.opcode == Opcode::Select) return i > 0;
  if (d.opcode == Opcode::Cast)
    return is_number(k.type(d.results[0])) || !is_number(k.type(d.operands[0]));
  if (d.opcode != Opcode::WithGradient) return true;
  const OpId inner = k[d.operands[0]].def;
  return i == 1 || (i == 0 && inner && k[inner].opcode == Opcode::WithGradient);
}

}  // namespace

// ---- dependence
std::vector<Value> Sweep::followed_inputs(OpId op) const {
  const Kernel& k = b.kernel();
  const OpData& d = k[op];
  std::vector<Value> found;
  for (std::size_t i = 0; i < d.operands.size(); ++i)
    if (follows(k, d, i)) found.push_back(d.operands[i]);
  std::unordered_set<Value> inside;
  for (const RegionId r : d.regions) {
    inside.insert(k[r].args.begin(), k[r].args.end());
    walk(k, r, [&](OpId inner) {
      const OpData& data = k[inner];
      inside.insert(data.results.begin(), data.results.end());
      for (const RegionId nested : data.regions)
        inside.insert(k[nested].args.begin(), k[nested].args.end());
      for (const Value v : data.operands)
        if (!inside.contains(v) && std::ranges::find(found, v) == found.end()) found.push_back(v);
    });
  }
  return found;
}

std::vector<Value> Sweep::active_inputs(OpId op) const {
  std::vector<Value> found = followed_inputs(op);
  std::erase_if(found, [&](Value v) { return !is_active(v); });
  return found;
}

/// Returns the value that a carry of an enclosing loop had before the loop, else the value.
Value Sweep::before_loops(Value v) const {
  if (before_loop_)
    while (const Value before = before_loop_(v)) v = before;
  return v;
}

Sweep::Sweep(Builder& to, DType adjoint_type, std::span<const Value> roots, Place where,
             BeforeLoop before_loop)
    : b(to),
      type(adjoint_type),
      place(where),
      before_loop_(std::move(before_loop)),
      active_(roots.begin(), roots.end()) {
  for (const Value v : roots) sources_.insert(before_loops(v));
}

void Sweep::find_active(std::span<const Value> outputs) {
  struct Step {
    OpId op;
    std::vector<Value> inputs;
    std::size_t next = 0;
  };
  std::unordered_set<OpId> seen;
  std::vector<Step> open;  // a stack: the chain of ops may be too long for recursion
  const auto enter = [&](Value v) {
    if (place != Place::Top && is_active(v)) return;
    const OpId def = b.kernel()[before_loops(v)].def;
    if (def && seen.insert(def).second) open.push_back({def, followed_inputs(def)});
  };
  for (const Value v : outputs) {
    enter(v);
    while (!open.empty()) {
      Step& s = open.back();
      if (s.next < s.inputs.size()) {
        enter(s.inputs[s.next++]);
        continue;
      }
      mark(s.op, s.inputs);
      open.pop_back();
    }
  }
}

/// Records an op after those that compute its inputs.
void Sweep::mark(OpId op, std::span<const Value> inputs) {
  order_.push_back(op);
  for (const Value v : inputs) {
    const Value source = before_loops(v);
    if (source != v && !is_active(v) && (is_active(source) || sources_.contains(source))) {
      active_.insert(v);
      carried_.insert(v);
    }
  }
  const auto& results = b.kernel()[op].results;
  if (std::ranges::any_of(inputs, [&](Value v) { return is_active(v); }))
    active_.insert(results.begin(), results.end());
}

// ---- propagation
void Sweep::run() {
  const Loc loc = b.loc;
  find_active(outputs_);
  for (auto op = order_.rbegin(); op != order_.rend(); ++op) apply(*op);
  b.loc = loc;
  reassoc_ = false;
}

void Sweep::apply(OpId op) {
  const OpData& d = b.kernel()[op];
  const bool is_reached = std::ranges::any_of(
      d.results, [&](Value v) { return is_active(v) && adjoints_.contains(v); });
  if (!is_reached || active_inputs(op).empty()) return;
  const VjpRow& row = row_of(d.opcode);
  if (row.kind != VjpRow::Kind::Rule) refuse(op, row.why);
  reassoc_ = d.attrs.has(AttrName::reassoc);
  b.loc = d.loc;
  Vjp v(*this, op);
  row.rule(v);
}

void Sweep::refuse(OpId op, std::string_view why) const {
  const OpData& d = b.kernel()[op];
  fail(ErrorId::no_derivative, d.loc, {}, fmt::format("`{}`", info(d.opcode).mnemonic), why);
}

Value Sweep::emit(Opcode opcode, std::initializer_list<Value> operands, AttrInits attrs) {
  using enum Opcode;
  const Value v = b.op(opcode, operands, attrs);
  Kernel& k = b.kernel();
  OpData& made = k[k[v].def];
  if (reassoc_ && k.type(v).rank() >= 2 && made.is(Add, Sub, Neg, Mul, Div, Fma))
    made.attrs.set(AttrName::reassoc, std::int64_t{1});
  return v;
}

Value Sweep::masked(Value v, const Mask& m) {
  const Value zero = b.zero(Type::scalar(type));
  return m.when ? b.select(m.condition, v, zero) : b.select(m.condition, zero, v);
}

/// Sums the elements to which one element of a value of the target's shape was broadcast.
Value Sweep::summed_to(Value v, Type target) {
  const Kernel& k = b.kernel();
  const auto reduce = [&](std::int64_t axis) {
    v = b.op(Opcode::Reduce, {v}, {{AttrName::axis, axis}, {AttrName::kind, "sum"}});
  };
  // Lanes of a warp hold the last dimension of most tiles.
  while (target.is_scalar() && k.type(v).is_tile()) reduce(k.type(v).rank() - 1);
  while (k.type(v).rank() > target.rank()) reduce(0);
  for (std::int64_t axis = 0; axis < target.rank(); ++axis) {
    const auto dim = static_cast<std::size_t>(axis);
    if (k.type(v).shape()[dim] == target.shape()[dim]) continue;
    reduce(axis);
    v = target.rank() == 1 ? b.op(Opcode::Splat, {v}, target.with_dtype(type))
                           : b.op(Opcode::ExpandDims, {v}, {{AttrName::axis, axis}});
  }
  return v;
}

void Sweep::seed(Value output, Value adjoint) {
  outputs_.push_back(output);
  add(output, {adjoint});
}

void Sweep::add(Value to, Adjoint a) {
  const Kernel& k = b.kernel();
  if (carried_.contains(to))
    refuse(k[k[to].region].owner,
           "carries the variable of the derivative: take the derivative inside it");
  if (!same_shape(k.type(a.value), k.type(to))) {
    apply_masks(a, [&](const Mask& m) { return is_uniform(m); });
    a.value = summed_to(a.value, k.type(to));
  }
  const auto [found, is_first] = adjoints_.emplace(to, a);
  if (is_first) return;
  Adjoint& sum = found->second;
  const auto is_in = [](const std::vector<Mask>& masks) {
    return [masks](const Mask& m) { return std::ranges::find(masks, m) != masks.end(); };
  };
  std::vector<Mask> mine = sum.masks, others = a.masks;
  std::erase_if(mine, is_in(a.masks));
  std::erase_if(others, is_in(sum.masks));
  // The two sides of one select.
  if (mine.size() == 1 && others.size() == 1 && mine[0].condition == others[0].condition) {
    if (!mine[0].when) std::swap(sum.value, a.value);
    sum.value = b.select(mine[0].condition, sum.value, a.value);
    std::erase(sum.masks, mine[0]);
    return;
  }
  apply_masks(sum, is_in(a.masks));
  apply_masks(a, is_in(sum.masks));
  sum.value = emit(Opcode::Add, {sum.value, a.value});
}

Value Sweep::of(Value v) {
  const auto found = adjoints_.find(v);
  if (found == adjoints_.end()) return {};
  apply_masks(found->second, [](const Mask&) { return false; });
  return found->second.value;
}

// ---- one op
Vjp::Vjp(Sweep& s, OpId op_id) : sweep(s), b(s.b), id(op_id), op(s.b.kernel()[op_id]) {
  const auto& all = sweep.adjoints_;
  const auto reached = std::ranges::count_if(op.results, [&](Value v) { return all.contains(v); });
  for (const Value result : op.results) {
    Adjoint a = all.contains(result) ? all.at(result) : Adjoint{};
    sweep.apply_masks(a, [&](const Mask& m) { return reached == 1 && keeps(m); });
    masks_.insert(masks_.end(), a.masks.begin(), a.masks.end());
    adjoints.push_back(a.value);
  }
  g = adjoints[0];
}

/// Returns true if a mask of the only adjoint fits the adjoints of all operands, too.
bool Vjp::keeps(const Mask& m) const {
  if (info(op.opcode).is_elementwise() || sweep.is_uniform(m)) return true;
  const Kernel& k = b.kernel();
  return !op.regions.empty() && std::ranges::all_of(sweep.active_inputs(id), [&](Value v) {
    return same_shape(k.type(v), k.type(m.condition));
  });
}

bool Vjp::is_one(Value v) const {
  const Kernel& k = b.kernel();
  OpId def = k[v].def;
  if (def && k[def].opcode == Opcode::Splat) def = k[k[def].operands[0]].def;
  return def && k[def].opcode == Opcode::Const && k[def].attrs.f(AttrName::value) == 1;
}

Value Vjp::mul(Value a, Value c) {
  const Kernel& k = b.kernel();
  for (const auto& [one, other] : {std::pair(a, c), std::pair(c, a)})
    if (is_one(one) && (k.type(one).is_scalar() || same_shape(k.type(one), k.type(other))))
      return other;
  return emit(Opcode::Mul, {a, c});
}

Value Vjp::neg(Value a) {
  const Kernel& k = b.kernel();
  const OpId def = k[a].def;
  return def && k[def].opcode == Opcode::Neg ? k[def].operands[0] : emit(Opcode::Neg, {a});
}

Value Vjp::div(Value a, Value c) {
  if (op.attrs.has(AttrName::approx)) return emit(Opcode::Div, {a, c}, {{AttrName::approx, 1}});
  return emit(Opcode::Div, {a, c});
}

void Vjp::add(std::size_t i, const Adjoint& a) {
  if (!wants(i)) return;
  if (!is_number(b.kernel().type(op.operands[i])))
    refuse("has no derivative: it converts an integer that was made from bits of a number");
  sweep.add(op.operands[i], a);
}

void Vjp::give_product(std::size_t i, Value a, Value c) {
  if (!wants(i)) return;
  const Kernel& k = b.kernel();
  const auto sum = sweep.adjoints_.find(op.operands[i]);
  if (sum == sweep.adjoints_.end() || sum->second.masks != masks_ || is_one(a) || is_one(c) ||
      !same_shape(k.type(op.operands[i]), k.type(g)))
    return give(i, mul(a, c));
  sum->second.value = emit(Opcode::Fma, {a, c, sum->second.value});
}

void Vjp::give_where(std::size_t i, Value condition, bool when, Value adjoint) {
  if (!wants(i)) return;
  Adjoint a{adjoint, masks_};
  if (const Mask m{condition, when}; std::ranges::find(masks_, m) == masks_.end())
    a.masks.push_back(m);
  add(i, a);
}

// ---- entry
ValueAdjoints differentiate(Builder& b, Value y, Value dy, std::span<const Value> wrt,
                            std::span<const Value> params, BeforeLoop before_loop) {
  const Kernel& k = b.kernel();
  std::vector<Value> roots(wrt.begin(), wrt.end());
  roots.insert(roots.end(), params.begin(), params.end());
  Sweep sweep(b, k.type(dy).dtype(), roots, Sweep::Place::Top, std::move(before_loop));
  sweep.seed(y, dy);
  sweep.run();
  ValueAdjoints result;
  for (const Value v : wrt)
    if (const Value adjoint = sweep.of(v)) result.of[v] = adjoint;
  result.loads = std::move(sweep.loads);
  for (const Value v : params)
    if (const Value adjoint = sweep.of(v)) result.loads.push_back({v, {}, adjoint});
  return result;
}

}  // namespace tegula::ir
