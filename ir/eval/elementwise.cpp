// Elementwise ops on tiles: operands broadcast, and absence and poison propagate.
#include <algorithm>

#include "ir/analysis/uniform.h"
#include "ir/eval/program.h"

namespace tegula::ir::interp {
namespace {

constexpr std::size_t kMaxOperands = 3;

/// Makes an element absent if any operand is absent there, and poison if any operand is poison.
void join_states(Program& p, std::span<const Value> operands, TileValue& out) {
  for (const Value v : operands) {
    const TileValue& in = p.value(v);
    out.join_edges(in.edges);
    if (in.states.empty()) continue;
    if (!out.origin) out.origin = in.origin;
    if (out.states.empty()) out.states.assign(out.cells.size(), 0);
    for (std::size_t i = 0; i < out.states.size(); ++i) out.states[i] |= in.state(i);
  }
}

/// Joins the states of `and` and `or`: 0 and x, and true or x, are defined for any x.
void join_logic_states(Program& p, OpId id, TileValue& out) {
  const OpData& d = p.op(id);
  join_states(p, d.operands, out);
  const bool is_and = d.opcode == Opcode::And;
  if (out.states.empty() || (!is_and && !is_bool(p.result_type(id).dtype()))) return;
  for (const Value v : d.operands) {
    const TileValue& in = p.value(v);
    for (std::size_t i = 0; i < out.states.size(); ++i) {
      if (in.state(i) != 0 || (in.cells[i * in.stride()].i == 0) != is_and) continue;
      out.states[i] &= static_cast<std::uint8_t>(~kPoison);
    }
  }
}

/// Returns the state of each element, edges included.
std::vector<std::uint8_t> all_states(Program& p, Value v, std::size_t count) {
  std::vector<std::uint8_t> out(count, 0);
  const TileValue& t = p.value(v);
  if (t.is_plain()) return out;
  const std::uint8_t* states = p.states(v);
  const bool is_scalar = p.kernel().type(v).count() != static_cast<std::int64_t>(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = states[is_scalar ? 0 : i];
  return out;
}

/// Joins the states of a select with a uniform condition, which selects one side unchanged.
void take_side(const TileValue& condition, const TileValue& side, TileValue& out) {
  out.join_edges(side.edges);
  if (!out.origin) out.origin = side.origin;
  const std::uint8_t all = condition.state(0);
  if (side.states.empty() && all == 0) return;
  out.states.assign(out.cells.size(), all);
  for (std::size_t i = 0; i < out.states.size(); ++i) out.states[i] |= side.state(i);
}

/// Joins the states of a select. An element is present if the condition and the selected side are;
/// the other side may be absent or poison. Edges of both sides stay edges.
void join_select_states(Program& p, OpId id, TileValue& out) {
  const OpData& d = p.op(id);
  const TileValue &condition = p.value(d.operands[0]), &yes = p.value(d.operands[1]),
                  &no = p.value(d.operands[2]);
  out.join_edges(condition.edges);
  if (condition.cells.size() == 1 && condition.edges.empty() &&
      is_uniform(p.kernel(), d.operands[0]))
    return take_side(condition, condition.cells[0].i != 0 ? yes : no, out);
  for (const TileValue* in : {&condition, &yes, &no})
    if (!out.origin) out.origin = in->origin;
  if (condition.states.empty() && yes.is_plain() && no.is_plain()) return;
  if (!yes.edges.empty() && !no.edges.empty()) {
    std::vector<std::uint8_t> neither(yes.edges.size());
    for (std::size_t i = 0; i < neither.size(); ++i) neither[i] = yes.edges[i] & no.edges[i];
    out.join_edges(neither);
  }
  const auto count = static_cast<std::size_t>(p.result_type(id).count());
  if (out.cells.size() != count) out.cells.resize(count, Cell(out.cells[0]));
  const auto a = all_states(p, d.operands[1], count), b = all_states(p, d.operands[2], count);
  out.states.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    out.states[i] = static_cast<std::uint8_t>(
        condition.state(i) | (condition.cells[i * condition.stride()].i != 0 ? a[i] : b[i]));
}

bool may_make_poison(const OpData& d, Elem out) {
  return d.is(Opcode::Div, Opcode::Rem) && !is_float(out.dtype);
}

void eval_elementwise(Program& p, OpId id) {
  const OpData& d = p.op(id);
  const std::size_t n = d.operands.size();
  std::array<Elem, kMaxOperands> in;
  std::array<const Cell*, kMaxOperands> cells;
  std::array<std::size_t, kMaxOperands> strides;
  std::size_t count = 1;
  for (std::size_t i = 0; i < n; ++i) {
    const TileValue& v = p.value(d.operands[i]);
    in[i] = p.operand_type(id, i).elem();
    cells[i] = v.cells.data();
    strides[i] = v.stride();
    count = std::max(count, v.cells.size());
  }
  TileValue& out = p.result(id);
  out.reset(count);
  const Elem elem = p.result_type(id).elem();
  std::vector<std::uint8_t> poison;
  if (may_make_poison(d, elem)) poison.assign(count, 0);
  elementwise_fn(d.opcode)({.attrs = d.attrs,
                            .in = std::span(in).first(n),
                            .out = elem,
                            .operands = std::span(cells).first(n),
                            .strides = std::span(strides).first(n),
                            .result = out.cells.data(),
                            .count = count,
                            .poison = poison.empty() ? nullptr : poison.data()});
  if (d.opcode == Opcode::Select)
    join_select_states(p, id, out);
  else if (d.is(Opcode::And, Opcode::Or) && !elem.pointer)
    join_logic_states(p, id, out);
  else
    join_states(p, std::span(d.operands).first(d.opcode == Opcode::WithGradient ? 1 : n), out);
  if (std::ranges::find(poison, 1) == poison.end()) return;
  out.origin = id;
  for (std::size_t i = 0; i < count; ++i)
    if (poison[i] != 0) out.add_state(i, kPoison);
}

}  // namespace

#define ELEMENTWISE(Name, ...) \
  void eval_##Name(Program& p, OpId id) { eval_elementwise(p, id); }
#define MATH(Name, ...) ELEMENTWISE(Name, )
#include "ir/op_rows.h"

}  // namespace tegula::ir::interp
