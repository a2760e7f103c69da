// Ops that combine tiles, and ops that select elements by an index.
#include <algorithm>

#include "ir/eval/fold.h"
#include "ir/eval/program.h"

namespace tegula::ir::interp {
namespace {

std::uint8_t state_of(const std::uint8_t* states, std::size_t i) {
  return states == nullptr ? 0 : states[i];
}

/// Coordinates along the other axes that all operands lack are edges of the result; other absence
/// is in the states.
void keep_common_edges(Program& p, OpId id, std::size_t axis) {
  const auto shape = p.result_type(id).shape();
  const std::size_t operands = p.op(id).operands.size();
  std::vector<std::uint8_t> edges;
  bool has_any = false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::uint8_t> common(static_cast<std::size_t>(shape[d]), d == axis ? 0 : 1);
    for (std::size_t i = 0; i < operands && d != axis; ++i) {
      const auto edge = p.operand(id, i).edge(p.operand_type(id, i).shape(), d);
      for (std::size_t coordinate = 0; coordinate < common.size(); ++coordinate)
        common[coordinate] &= edge.empty() ? 0 : edge[coordinate];
    }
    has_any = has_any || std::ranges::find(common, 1) != common.end();
    edges.insert(edges.end(), common.begin(), common.end());
  }
  if (has_any) p.result(id).edges = std::move(edges);
}

/// Sets the absent coordinates of a gather's result: those of the index and, except along the axis,
/// those of the tile.
void join_gathered_edges(Program& p, OpId id, std::size_t axis) {
  const TileValue& tile = p.operand(id, 0);
  TileValue& out = p.result(id);
  out.edges = p.operand(id, 1).edges;
  if (tile.edges.empty()) return;
  const auto from = p.operand_type(id, 0).shape(), to = p.result_type(id).shape();
  std::vector<std::uint8_t> edges;
  for (std::size_t d = 0; d < to.size(); ++d) {
    const auto edge = tile.edge(from, d);
    if (d == axis)
      edges.insert(edges.end(), static_cast<std::size_t>(to[d]), 0);
    else
      edges.insert(edges.end(), edge.begin(), edge.end());
  }
  out.join_edges(edges);
}

/// Combines an element of a scatter's tile with a value.
Cell combined(std::string_view kind, Cell old, Cell value, DType dtype) {
  if (kind == "add")
    return canonical(Cell{.i = static_cast<std::int64_t>(static_cast<std::uint64_t>(old.i) +
                                                         static_cast<std::uint64_t>(value.i))},
                     dtype);
  if (kind == "or") return Cell{.i = old.i | value.i};
  const bool is_less = dtype == DType::u64
                           ? static_cast<std::uint64_t>(value.i) < static_cast<std::uint64_t>(old.i)
                           : value.i < old.i;
  return (kind == "min") == is_less ? value : old;
}

}  // namespace

void eval_TileConcat(Program& p, OpId id) {
  const auto axis = static_cast<std::size_t>(p.attrs(id).i(AttrName::axis));
  const AxisShape whole(p.result_type(id).shape(), static_cast<std::int64_t>(axis));
  TileValue& out = p.result(id);
  out.reset(static_cast<std::size_t>(p.result_type(id).count()));
  std::size_t begin = 0;
  for (const Value v : std::vector<Value>(p.op(id).operands.begin(), p.op(id).operands.end())) {
    const AxisShape part(p.kernel().type(v).shape(), static_cast<std::int64_t>(axis));
    const Cell* cells = p.dense(v);
    const std::uint8_t* states = p.states(v);
    const std::size_t run = part.extent * part.inner;
    for (std::size_t o = 0; o < part.outer; ++o)
      for (std::size_t i = 0; i < run; ++i) {
        const std::size_t to = (o * whole.extent + begin) * whole.inner + i, from = o * run + i;
        out.cells[to] = cells[from];
        if (const std::uint8_t state = state_of(states, from)) out.add_state(to, state);
      }
    begin += part.extent;
    if (!out.origin) out.origin = p.value(v).origin;
  }
  keep_common_edges(p, id, axis);
}

void eval_Gather(Program& p, OpId id) {
  const std::int64_t axis = p.attrs(id).i(AttrName::axis);
  const Value tile = p.op(id).operands[0], index = p.op(id).operands[1];
  const AxisShape from(p.operand_type(id, 0).shape(), axis), to(p.result_type(id).shape(), axis);
  const Cell *cells = p.dense(tile), *indices = p.dense(index);
  const std::uint8_t *states = p.states(tile, 0), *index_states = p.states(index, 1);
  TileValue& out = p.result(id);
  out.reset(static_cast<std::size_t>(p.result_type(id).count()));
  for (std::size_t i = 0; i < out.cells.size(); ++i) {
    const auto index = static_cast<std::uint64_t>(indices[i].i);
    out.cells[i] = Cell{.i = 0};
    std::uint8_t state = state_of(index_states, i);
    if ((state & kAbsent) == 0 && index < from.extent) {
      const std::size_t outer = i / (to.extent * to.inner), inner = i % to.inner;
      const std::size_t chosen =
          (outer * from.extent + static_cast<std::size_t>(index)) * from.inner + inner;
      out.cells[i] = cells[chosen];
      state |= state_of(states, chosen);
    }
    if (state != 0) out.add_state(i, state);
  }
  out.origin = p.value(index).origin ? p.value(index).origin : p.value(tile).origin;
  join_gathered_edges(p, id, static_cast<std::size_t>(axis));
}

void eval_Scatter(Program& p, OpId id) {
  const std::int64_t axis = p.attrs(id).i(AttrName::axis);
  const std::string_view kind = p.attrs(id).s(AttrName::kind);
  const bool stores = kind == "store";
  const Value tile = p.op(id).operands[0], index = p.op(id).operands[1],
              values = p.op(id).operands[2];
  const DType dtype = p.result_type(id).dtype();
  const AxisShape to(p.result_type(id).shape(), axis), from(p.operand_type(id, 1).shape(), axis);
  const Cell *indices = p.dense(index), *cells = p.dense(values), *before = p.dense(tile);
  const std::uint8_t *states = p.states(tile, 0), *index_states = p.states(index, 1),
                     *value_states = p.states(values, 2);
  TileValue& out = p.result(id);
  out.reset(static_cast<std::size_t>(p.result_type(id).count()));
  std::copy_n(before, out.cells.size(), out.cells.begin());
  if (states != nullptr) out.states.assign(states, states + out.cells.size());
  if (!stores) out.edges = p.value(tile).edges;
  std::vector<bool> written(out.cells.size(), false);
  const std::size_t count = from.outer * from.extent * from.inner;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t state = state_of(index_states, i) | state_of(value_states, i);
    const auto index = static_cast<std::uint64_t>(indices[i].i);
    if ((state & kAbsent) != 0 || index >= to.extent) continue;
    const std::size_t outer = i / (from.extent * from.inner), inner = i % from.inner;
    const std::size_t place =
        (outer * to.extent + static_cast<std::size_t>(index)) * to.inner + inner;
    if (stores && written[place])
      p.report(FindingKind::ScatterRepeats, id, p.op(id).loc,
               [&] { return std::string("two elements of a scatter are stored at one index"); });
    written[place] = true;
    out.cells[place] = stores ? cells[i] : combined(kind, out.cells[place], cells[i], dtype);
    if (stores && !out.states.empty()) out.states[place] = 0;
    if ((state & kPoison) != 0) out.add_state(place, kPoison);
  }
  for (const Value v : {tile, index, values})
    if (!out.origin) out.origin = p.value(v).origin;
}

}  // namespace tegula::ir::interp
