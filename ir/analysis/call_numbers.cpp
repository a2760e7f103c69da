#include "ir/analysis/call_numbers.h"

#include <algorithm>

#include "ir/analysis/index_facts.h"
#include "ir/eval/evaluate.h"
#include "tegula/int_math.h"

namespace tegula::ir {

CallNumbers::CallNumbers(const Kernel& k, std::span<const EvalArg> args, std::int64_t program)
    : k_(k), args_(args), program_(program) {
  // Passes may have added parameters that no argument of the call has.
  const auto count = static_cast<std::int64_t>(args.size());
  for (const Param& p : k.params())
    if (const std::int64_t position = p.attrs.i(AttrName::arg, count); position < count)
      position_[p.value] = position;
}

std::optional<std::int64_t> CallNumbers::of(Value v) {
  const auto cell = cell_of(v);
  return cell ? std::optional(cell->i) : std::nullopt;
}

const EvalArg* CallNumbers::argument(Value v) const {
  const auto found = position_.find(v);
  return found == position_.end() ? nullptr : &args_[static_cast<std::size_t>(found->second)];
}

const TensorArg* CallNumbers::tensor(Value view) const {
  return std::get_if<TensorArg>(argument(view));
}

std::optional<std::int64_t> CallNumbers::trips(const OpData& loop) {
  if (loop.opcode != Opcode::For) return std::nullopt;
  const auto lo = of(loop.operands[0]), hi = of(loop.operands[1]), by = of(loop.operands[2]);
  if (!lo || !hi || !by || *by <= 0) return std::nullopt;
  return ceil_div(std::max<std::int64_t>(*hi - *lo, 0), *by);
}

std::int64_t CallNumbers::programs() {
  std::int64_t product = 1;
  if (const OpId yield = k_.terminator(k_.launch()))
    for (Value v : k_[yield].operands) product *= of(v).value_or(1);
  return std::max<std::int64_t>(product, 1);
}

std::optional<Cell> CallNumbers::cell_of(Value v) {
  if (!k_.type(v).is_scalar()) return std::nullopt;
  const auto [found, is_new] = known_.try_emplace(v, std::nullopt);
  if (!is_new) return found->second;
  const std::optional<Cell> cell = compute(v);
  return known_[v] = cell;
}

std::optional<Cell> CallNumbers::compute(Value v) {
  const auto integer = [](std::int64_t i) { return std::optional(Cell{.i = i}); };
  if (const EvalArg* given = argument(v)) {
    const Cell* cell = std::get_if<Cell>(given);
    return cell ? std::optional(*cell) : std::nullopt;
  }
  const OpId def = k_[v].def;
  if (!def) {
    const OpId loop = k_[k_[v].region].owner;
    const bool is_index = loop && k_[loop].opcode == Opcode::For && k_[v].position == 0;
    return is_index ? cell_of(k_[loop].operands[0]) : std::nullopt;
  }
  const OpData& d = k_[def];
  if (const auto constant = constant_value(k_, v)) return integer(*constant);
  if (d.is(Opcode::ProgramId, Opcode::ClusterId))
    return integer(d.attrs.i(AttrName::axis) == 0 ? program_ : 0);
  if (d.opcode == Opcode::ViewDim)
    return extent_of(d.operands[0], static_cast<std::size_t>(d.attrs.i(AttrName::axis)));
  return evaluate_scalar(k_, d, [&](Value o) { return cell_of(o); });
}

std::optional<Cell> CallNumbers::extent_of(Value view, std::size_t axis) {
  if (const TensorArg* t = tensor(view)) return Cell{.i = t->dims[axis]};
  const OpId made = k_[view].def;
  return made && k_[made].opcode == Opcode::MakeView ? cell_of(k_[made].operands[1 + axis])
                                                     : std::nullopt;
}

GridDims::GridDims(const Kernel& k, CallNumbers& numbers) : k_(k) {
  for (OpId op : k.ops(k.body())) {
    if (k[op].opcode != Opcode::Assume || k[op].attrs.s(AttrName::kind) != "count") continue;
    const OpId less = k[k[op].operands[0]].def;
    if (!less || k[less].opcode != Opcode::Cmp) continue;
    const Value tile = k[less].operands[0], count = k[less].operands[1];
    known_[tile] = Set{1} << dims_.size();
    dims_.push_back({tile, static_cast<double>(numbers.of(count).value_or(1))});
  }
}

GridDims::Set GridDims::of(Value v) {
  if (const auto found = known_.find(v); found != known_.end()) return found->second;
  known_[v] = 0;
  Set set = 0;
  if (const OpId def = k_[v].def) {
    if (k_[def].is(Opcode::ProgramId, Opcode::ClusterId)) set = all();
    for (Value o : k_[def].operands) set |= of(o);
  } else if (k_[v].region) {
    const OpId loop = k_[k_[v].region].owner;
    for (std::size_t i = 0; loop && i < k_[loop].operands.size(); ++i)
      if (k_[loop].opcode != Opcode::For || i != 1) set |= of(k_[loop].operands[i]);
  }
  return known_[v] = set;
}

double GridDims::count(Set set) const {
  double n = 1;
  for (std::size_t i = 0; i < dims_.size(); ++i) n *= (set >> i & 1) != 0 ? dims_[i].count : 1;
  return n;
}

}  // namespace tegula::ir
