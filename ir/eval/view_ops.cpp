// Views: boxes of tensors, and the ops that load and store them.
#include "ir/eval/box.h"

#include <fmt/format.h>

#include <algorithm>

namespace tegula::ir::interp {

bool Box::is_inside() const {
  return !is_outside &&
         std::ranges::all_of(dims, [](const Dim& d) { return d.low == 0 && d.high == d.extent; });
}

std::size_t Box::count() const {
  std::size_t n = 1;
  for (const Dim& d : dims) n *= static_cast<std::size_t>(d.extent);
  return n;
}

Box make_box(Program& p, OpId id, std::size_t view, std::size_t first_offset,
             std::span<const std::int64_t> shape) {
  Box box;
  box.region = p.operand(id, view).region;
  box.first = box.region->base;
  const TensorArg& t = *box.region->tensor;
  const std::int64_t size = size_bytes(t.dtype);
  const auto axes = p.attrs(id).ints(AttrName::axes);
  std::vector<std::int64_t> offsets(t.dims.size(), 0);
  for (std::size_t d = 0; d < t.dims.size(); ++d) {
    const bool is_absent = (p.operand(id, first_offset + d).state(0) & kPoison) == 0 &&
                           (p.operand(id, first_offset + d).state(0) & kAbsent) != 0;
    const auto offset = is_absent ? std::nullopt : p.integer(id, first_offset + d, "an offset");
    if (!offset) {
      box.is_outside = true;
      continue;
    }
    offsets[d] = *offset;
    const bool is_fixed = std::ranges::find(axes, static_cast<std::int64_t>(d)) == axes.end();
    if (is_fixed && (*offset < 0 || *offset >= t.dims[d])) box.is_outside = true;
  }
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const auto d = static_cast<std::size_t>(axes[i]);
    const std::int64_t low = std::clamp<std::int64_t>(-offsets[d], 0, shape[i]);
    const std::int64_t high = std::clamp<std::int64_t>(t.dims[d] - offsets[d], low, shape[i]);
    box.dims.push_back({shape[i], t.strides[d] * size, low, high});
  }
  const bool touches_memory =
      !box.is_outside &&
      std::ranges::all_of(box.dims, [](const Box::Dim& d) { return d.low < d.high; });
  for (std::size_t d = 0; touches_memory && d < offsets.size(); ++d)
    box.first += offsets[d] * t.strides[d] * size;
  return box;
}

void mark_outside(const Box& box, TileValue& out) {
  if (box.is_inside()) return;
  if (box.is_outside) {
    out.states.assign(out.cells.size(), kAbsent);
    return;
  }
  for (const Box::Dim& d : box.dims)
    for (std::int64_t i = 0; i < d.extent; ++i) out.edges.push_back(i < d.low || i >= d.high);
}

void read_box(Program& p, OpId id, const Box& box, Cell* cells) {
  if (!box.is_inside()) std::fill_n(cells, box.count(), Cell{.i = 0});
  visit_dtype(box.region->tensor->dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_inside(box,
                    [&](std::size_t i, const std::byte* at) { cells[i] = read_element<T>(at); });
  });
  if (box.region->shadow == nullptr) return;
  const auto size = static_cast<std::size_t>(size_bytes(box.region->dtype));
  for_each_inside(
      box, [&](std::size_t, const std::byte* at) { p.touch_read(*box.region, at, size, id); });
}

void eval_ProgramId(Program& p, OpId id) {
  const auto axis = static_cast<std::size_t>(p.attrs(id).i(AttrName::axis));
  p.result(id).set_scalar(Cell{.i = p.coordinates().at(axis)});
}

void eval_NumPrograms(Program& p, OpId id) {
  const auto axis = static_cast<std::size_t>(p.attrs(id).i(AttrName::axis));
  p.result(id).set_scalar(Cell{.i = p.evaluation().grid.at(axis)});
}

void eval_ViewDim(Program& p, OpId id) {
  const auto axis = static_cast<std::size_t>(p.attrs(id).i(AttrName::axis));
  const std::int64_t extent = p.operand(id, 0).region->tensor->dims.at(axis);
  p.result(id).set_scalar(canonical(Cell{.i = extent}, p.result_type(id).dtype()));
}

void eval_ViewStride(Program& p, OpId id) {
  const auto axis = static_cast<std::size_t>(p.attrs(id).i(AttrName::axis));
  const std::int64_t stride = p.operand(id, 0).region->tensor->strides.at(axis);
  p.result(id).set_scalar(canonical(Cell{.i = stride}, p.result_type(id).dtype()));
}

void eval_ViewPtr(Program& p, OpId id) {
  p.result(id).set_scalar(Cell{.i = p.operand(id, 0).region->address});
}

void eval_LoadView(Program& p, OpId id) {
  const Type type = p.result_type(id);
  const Box box = make_box(p, id, 0, 1, type.shape());
  TileValue& out = p.result(id);
  out.reset(static_cast<std::size_t>(type.count()));
  read_box(p, id, box, out.cells.data());
  mark_outside(box, out);
}

void eval_StoreView(Program& p, OpId id) {
  const Value tile = p.op(id).operands[1];
  const Box box = make_box(p, id, 0, 2, p.operand_type(id, 1).shape());
  const Cell* cells = p.dense(tile);
  const std::uint8_t* states = p.states(tile);
  const MemoryRegion& region = *box.region;
  const auto size = static_cast<std::size_t>(size_bytes(region.dtype));
  const auto write = [&](std::size_t i, const std::byte* at, auto tag) {
    if (states != nullptr && (states[i] & kAbsent) != 0) return;
    if (states != nullptr && (states[i] & kPoison) != 0) {
      const Memory& m = p.evaluation().memory;
      p.report_poison(id, "writes", "to " + m.describe(region, m.address_of(region, at)),
                      p.value(tile).origin);
    }
    if (region.shadow != nullptr) p.touch_write(region, at, size, id);
    write_element<typename decltype(tag)::type>(region.base + (at - region.base), cells[i]);
  };
  visit_dtype(region.tensor->dtype, [&](auto tag) {
    for_each_inside(box, [&](std::size_t i, const std::byte* at) { write(i, at, tag); });
  });
}

}  // namespace tegula::ir::interp
