// Elementwise ops on tiles: operands broadcast, absence and poison spread.
#include <algorithm>

#include "ir/eval/program.h"

namespace tegula::ir::interp {
namespace {

constexpr std::size_t kMaxOperands = 3;

void join_edges(std::vector<std::uint8_t>& into, const std::vector<std::uint8_t>& from) {
  if (from.empty()) return;
  if (into.empty()) {
    into = from;
    return;
  }
  for (std::size_t i = 0; i < into.size(); ++i) into[i] |= from[i];
}

/// Absent where any operand is absent, poison where any is.
void join_states(Program& p, const OpData& d, TileValue& out) {
  for (const Value v : d.operands) {
    const TileValue& in = p.value(v);
    join_edges(out.edges, in.edges);
    if (in.states.empty()) continue;
    if (!out.origin) out.origin = in.origin;
    if (out.states.empty()) out.states.assign(out.cells.size(), 0);
    for (std::size_t i = 0; i < out.states.size(); ++i) out.states[i] |= in.state(i);
  }
}

/// The side that a select does not take may be poison.
void join_select_states(Program& p, const OpData& d, TileValue& out) {
  const TileValue &condition = p.value(d.operands[0]), &yes = p.value(d.operands[1]),
                  &no = p.value(d.operands[2]);
  for (const TileValue* in : {&condition, &yes, &no}) {
    join_edges(out.edges, in->edges);
    if (!out.origin) out.origin = in->origin;
  }
  if (condition.states.empty() && yes.states.empty() && no.states.empty()) return;
  out.states.resize(out.cells.size());
  for (std::size_t i = 0; i < out.states.size(); ++i) {
    const std::uint8_t a = yes.state(i), b = no.state(i);
    const std::uint8_t taken = condition.cells[i * condition.stride()].i != 0 ? a : b;
    out.states[i] = static_cast<std::uint8_t>(condition.state(i) | taken | ((a | b) & kAbsent));
  }
}

bool may_make_poison(const OpData& d, Elem out) {
  return (d.opcode == Opcode::Div || d.opcode == Opcode::Rem) && !is_float(out.dtype);
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
    join_select_states(p, d, out);
  else
    join_states(p, d, out);
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
