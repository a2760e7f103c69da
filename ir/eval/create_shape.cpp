// Ops that create tiles, and ops that only rearrange them.
#include <algorithm>
#include <numeric>

#include "ir/eval/box.h"
#include "ir/eval/program.h"
#include "ir/reshape_groups.h"

namespace tegula::ir::interp {
namespace {

void append_edge(std::vector<std::uint8_t>& edges, std::span<const std::uint8_t> edge,
                 std::int64_t extent) {
  if (edge.size() == static_cast<std::size_t>(extent))
    edges.insert(edges.end(), edge.begin(), edge.end());
  else
    edges.insert(edges.end(), static_cast<std::size_t>(extent), edge.empty() ? 0 : edge[0]);
}

Ints row_major_strides(std::span<const std::int64_t> shape) {
  Ints strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0; step *= shape[d]) strides[d] = step;
  return strides;
}

/// Computes out[i] = in[sum of index * stride], over `shape` in row-major order.
template <class T>
void copy_strided(const T* in, std::span<const std::int64_t> shape,
                  std::span<const std::int64_t> strides, T* out) {
  const std::size_t rank = shape.size();
  const std::int64_t inner = rank == 0 ? 1 : shape[rank - 1];
  const std::int64_t step = rank == 0 ? 0 : strides[rank - 1];
  Ints index(rank, 0);
  std::int64_t from = 0;
  for (;;) {
    for (std::int64_t i = 0; i < inner; ++i) *out++ = in[from + i * step];
    std::size_t d = rank < 2 ? 0 : rank - 1;
    while (d > 0) {
      --d;
      from += strides[d];
      if (++index[d] < shape[d]) break;
      from -= index[d] * strides[d];
      index[d] = 0;
      if (d == 0) return;
    }
    if (rank < 2) return;
  }
}

/// Sets the result to the operand, read with these strides from element `first` on. The caller sets
/// the edges.
void rearrange(Program& p, OpId id, std::span<const std::int64_t> strides, std::int64_t first = 0) {
  TileValue &in = p.operand(id, 0), &out = p.result(id);
  if (in.cells.size() == 1) {
    out.reset(1);
    out.cells = in.cells;
    out.states = in.states;
  } else {
    const Type type = p.result_type(id);
    out.reset(static_cast<std::size_t>(type.count()));
    copy_strided(in.cells.data() + first, type.shape(), strides, out.cells.data());
    if (!in.states.empty()) {
      out.states.resize(out.cells.size());
      copy_strided(in.states.data() + first, type.shape(), strides, out.states.data());
    }
  }
  out.origin = in.origin;
}

/// Returns a flag for each element of the group: true if the element is outside in one of the
/// group's dimensions of the operand.
std::vector<std::uint8_t> flattened_edge(const TileValue& v, std::span<const std::int64_t> shape,
                                         const ReshapeGroup& g) {
  std::vector<std::uint8_t> flat(1, 0);
  for (std::size_t d = g.from; d < g.from_end; ++d) {
    const auto edge = v.edge(shape, d);
    std::vector<std::uint8_t> next;
    next.reserve(flat.size() * edge.size());
    for (const std::uint8_t before : flat)
      for (const std::uint8_t here : edge) next.push_back(before | here);
    flat = std::move(next);
  }
  return flat;
}

/// Edges stay edges if a group becomes one dimension; if the group is split, they become states of
/// the elements.
void reshape_edges(const TileValue& in, std::span<const std::int64_t> from,
                   std::span<const std::int64_t> to, TileValue& out) {
  std::size_t inner = 1;
  for (const std::int64_t extent : to) inner *= static_cast<std::size_t>(extent);
  const std::size_t count = inner;
  for (const ReshapeGroup& g : reshape_groups(from, to)) {
    const auto flat = flattened_edge(in, from, g);
    inner /= flat.size();
    const std::size_t whole = whole_dim(g, to);
    for (std::size_t d = g.to; d < g.to_end; ++d)
      append_edge(
          out.edges,
          d == whole ? std::span<const std::uint8_t>(flat) : std::span<const std::uint8_t>(),
          to[d]);
    if (whole < g.to_end || std::ranges::find(flat, 1) == flat.end()) continue;
    if (out.cells.size() != count) out.cells.resize(count, Cell(out.cells[0]));
    if (out.states.size() != count)
      out.states.resize(count, out.states.empty() ? std::uint8_t{0} : std::uint8_t(out.states[0]));
    for (std::size_t i = 0; i < count; ++i)
      if (flat[i / inner % flat.size()] != 0) out.states[i] |= kAbsent;
  }
}

}  // namespace

void eval_Const(Program& p, OpId id) {
  const Elem elem = p.result_type(id).elem();
  const AttrValue* value = p.attrs(id).find(AttrName::value);
  const bool is_float_cell = !elem.pointer && is_float(elem.dtype);
  Cell c{.i = 0};
  if (const auto* f = std::get_if<double>(value))
    c = is_float_cell ? Cell{.f = *f} : Cell{.i = static_cast<std::int64_t>(*f)};
  else if (const auto* i = std::get_if<std::int64_t>(value))
    c = is_float_cell ? Cell{.f = static_cast<double>(*i)} : Cell{.i = *i};
  p.result(id).set_scalar(elem.pointer ? c : canonical(c, elem.dtype));
}

namespace {

/// Returns true for a single element that a load reads outside its view.
bool is_outside_element(Program& p, Value v) {
  const OpId def = p.kernel()[v].def;
  return def && p.op(def).opcode == Opcode::LoadView && !p.kernel().type(v).is_tile() &&
         make_box(p, def).is_outside;
}

}  // namespace

void eval_FillAbsent(Program& p, OpId id) {
  const Value v = p.op(id).operands[0];
  const auto count = static_cast<std::size_t>(p.result_type(id).count());
  const bool tells = p.attrs(id).s(AttrName::kind) == "present";
  const bool is_outside = is_outside_element(p, v);
  const Cell* cells = p.dense(v);
  const std::uint8_t* states = p.states(v);
  const TileValue& fill = p.operand(id, 1);
  TileValue& out = p.result(id);
  out.reset(count);
  out.origin = p.value(v).origin;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t state = states == nullptr ? 0 : states[i];
    const bool absent = is_outside || (state & kAbsent) != 0;
    out.cells[i] = tells ? Cell{.i = absent ? 0 : 1} : absent ? fill.cells[0] : cells[i];
    const std::uint8_t poison = absent ? fill.state(0) : state & kPoison;
    if (poison != 0 && !tells) out.add_state(i, poison);
  }
}

void eval_Crop(Program& p, OpId id) {
  const auto shape = p.result_type(id).shape();
  const auto axis = static_cast<std::size_t>(p.attrs(id).i(AttrName::axis));
  const std::int64_t first = p.operand(id, 1).cells[0].i, end = p.operand(id, 2).cells[0].i;
  TileValue& out = p.result(id);
  out = TileValue(p.operand(id, 0));
  // One flag per index of each dimension.
  if (out.edges.empty())
    out.edges.assign(
        static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{0})), 0);
  const std::int64_t before = std::accumulate(
      shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis), std::int64_t{0});
  for (std::int64_t i = 0; i < shape[axis]; ++i)
    if (first + i < 0 || first + i >= end) out.edges[static_cast<std::size_t>(before + i)] = 1;
}

void eval_Poison(Program& p, OpId id) {
  TileValue& out = p.result(id);
  out.set_scalar(Cell{.i = 0});
  out.add_state(0, kPoison);
  out.origin = id;
}

void eval_Arange(Program& p, OpId id) {
  const Type type = p.result_type(id);
  const std::int64_t start = p.attrs(id).i(AttrName::start);
  TileValue& out = p.result(id);
  out.reset(static_cast<std::size_t>(type.count()));
  const bool counts_in_float = is_float(type.dtype());
  for (std::size_t i = 0; i < out.cells.size(); ++i) {
    const std::int64_t n = start + static_cast<std::int64_t>(i);
    out.cells[i] =
        canonical(counts_in_float ? Cell{.f = static_cast<double>(n)} : Cell{.i = n}, type.dtype());
  }
}

void eval_Splat(Program& p, OpId id) {
  const TileValue& in = p.operand(id, 0);
  TileValue& out = p.result(id);
  out.set_scalar(in.cells[0]);
  out.states = in.states;
  out.origin = in.origin;
}

void eval_Broadcast(Program& p, OpId id) {
  const auto from = p.operand_type(id, 0).shape(), to = p.result_type(id).shape();
  Ints strides = row_major_strides(from);
  for (std::size_t d = 0; d < from.size(); ++d)
    if (from[d] == 1) strides[d] = 0;
  rearrange(p, id, strides);
  const TileValue& in = p.operand(id, 0);
  if (in.edges.empty()) return;
  for (std::size_t d = 0; d < to.size(); ++d)
    append_edge(p.result(id).edges, in.edge(from, d), to[d]);
}

void eval_ExpandDims(Program& p, OpId id) {
  const TileValue& in = p.operand(id, 0);
  TileValue& out = p.result(id);
  out = in;
  if (in.edges.empty()) return;
  const auto from = p.operand_type(id, 0).shape();
  const auto axis = static_cast<std::size_t>(p.attrs(id).i(AttrName::axis));
  std::size_t before = 0;
  for (std::size_t d = 0; d < axis; ++d) before += static_cast<std::size_t>(from[d]);
  out.edges.insert(out.edges.begin() + static_cast<std::ptrdiff_t>(before), 0);
}

void eval_Reshape(Program& p, OpId id) {
  const TileValue& in = p.operand(id, 0);
  TileValue& out = p.result(id);
  out.cells = in.cells;
  out.states = in.states;
  out.origin = in.origin;
  out.edges.clear();
  if (!in.edges.empty())
    reshape_edges(in, p.operand_type(id, 0).shape(), p.result_type(id).shape(), out);
}

void eval_Permute(Program& p, OpId id) {
  const auto order = p.attrs(id).ints(AttrName::order);
  const auto from = p.operand_type(id, 0).shape();
  const Ints in_strides = row_major_strides(from);
  Ints strides;
  for (const std::int64_t d : order) strides.push_back(in_strides[static_cast<std::size_t>(d)]);
  rearrange(p, id, strides);
  const TileValue& in = p.operand(id, 0);
  if (in.edges.empty()) return;
  for (const std::int64_t d : order)
    append_edge(p.result(id).edges, in.edge(from, static_cast<std::size_t>(d)),
                from[static_cast<std::size_t>(d)]);
}

void eval_TileSlice(Program& p, OpId id) {
  const auto from = p.operand_type(id, 0).shape(), to = p.result_type(id).shape();
  const auto start = p.attrs(id).ints(AttrName::offsets);
  const Ints strides = row_major_strides(from);
  std::int64_t first = 0;
  for (std::size_t d = 0; d < start.size(); ++d) first += start[d] * strides[d];
  rearrange(p, id, strides, first);
  const TileValue& in = p.operand(id, 0);
  if (in.edges.empty()) return;
  for (std::size_t d = 0; d < to.size(); ++d) {
    const auto skipped = static_cast<std::size_t>(d < start.size() ? start[d] : 0);
    append_edge(p.result(id).edges,
                in.edge(from, d).subspan(skipped, static_cast<std::size_t>(to[d])), to[d]);
  }
}

void eval_ConvertLayout(Program& p, OpId id) { p.result(id) = p.operand(id, 0); }

}  // namespace tegula::ir::interp
