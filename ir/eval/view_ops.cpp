// Views: boxes of tensors, and the ops that load and store them.
#include "ir/eval/atomic_kind.h"
#include "ir/eval/box.h"
#include "ir/eval/unstored.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "ir/access.h"

namespace tegula::ir::interp {

bool Box::is_inside() const {
  return !is_outside &&
         std::ranges::all_of(dims, [](const Dim& d) { return d.low == 0 && d.high == d.extent; }) &&
         std::ranges::all_of(places, &Place::is_inside);
}

std::size_t Box::count() const {
  std::size_t n = 1;
  for (const Dim& d : dims) n *= static_cast<std::size_t>(d.extent);
  return n;
}

namespace {

std::string_view name_of(const Box& box) {
  return box.region == nullptr ? "a view" : box.region->name;
}

const TensorArg& tensor_of(const TileValue& view) {
  return view.made ? view.made->tensor : *view.region->tensor;
}

/// Returns the offset of a view dimension from its operand, or nothing if it is absent or poison
/// (which is reported).
std::optional<std::int64_t> offset_along(Program& p, OpId id, Value offset) {
  const std::uint8_t state = p.value(offset).state(0);
  if ((state & (kAbsent | kPoison)) == kAbsent) return std::nullopt;
  return p.integer(id, offset, "an offset");
}

/// Checks properties that earlier passes proved for the box (attributes `in_bounds`,
/// `offset_divisibility`), because later passes drop guards that depend on them.
void check_proofs(Program& p, OpId id, const Box& box, const BoxAccess& a,
                  std::span<const std::int64_t> offsets) {
  const TensorArg& t = *box.tensor;
  const auto& known_strides = p.kernel().type(a.view).view_facts().strides;
  for (std::size_t v = 0; v < a.axes.size(); ++v) {
    const std::int64_t end = offsets[v] + a.axes[v].extent;
    if (a.axes[v].in_bounds && (offsets[v] < 0 || end > t.dims[v]))
      p.report(FindingKind::OutOfBounds, id, p.op(id).loc, [&] {
        return fmt::format(
            "{} was proved inside of {} along dimension {}, but touches [{}, {}) of {}",
            info(p.op(id).opcode).mnemonic, name_of(box), v, offsets[v], end, t.dims[v]);
      });
    if (known_strides[v] == 1 && offsets[v] % std::max<std::int64_t>(1, a.divisor) != 0)
      p.report(FindingKind::AssumeViolated, id, p.op(id).loc, [&] {
        return fmt::format(
            "the offset along dimension {} of {} is {}, but was proved a multiple of {}", v,
            name_of(box), offsets[v], a.divisor);
      });
  }
}

/// Sets the places that an index tile along view dimension `d` selects.
void select_places(Program& p, OpId id, Value tile, std::size_t d, Box& box) {
  const TensorArg& t = *box.tensor;
  const Cell* index = p.dense(tile);
  const std::uint8_t* states = p.states(tile);
  box.places.resize(static_cast<std::size_t>(p.kernel().type(tile).count()));
  bool is_poison = false;
  for (std::size_t i = 0; i < box.places.size(); ++i) {
    Box::Place& place = box.places[i];
    const std::uint8_t state = states == nullptr ? 0 : states[i];
    is_poison |= (state & (kAbsent | kPoison)) == kPoison;
    place.is_absent |= (state & kAbsent) != 0;
    place.is_inside &= state == 0 && index[i].i >= 0 && index[i].i < t.dims[d];
    if (place.is_inside) place.bytes += index[i].i * t.strides[d] * size_bytes(t.dtype);
  }
  if (is_poison)
    p.report_poison(id, "selects elements", "of " + std::string(name_of(box)),
                    p.value(tile).origin);
}

/// Returns the lowest and highest distance from `first`, in bytes, of the elements inside the
/// tensor.
std::pair<std::int64_t, std::int64_t> reach_of(const Box& box) {
  std::int64_t low = 0, high = 0;
  for (std::size_t d = 0; d < box.dims.size(); ++d) {
    std::optional<std::int64_t> least, most;
    for (std::int64_t i = box.dims[d].low; i < box.dims[d].high; ++i)
      if (const auto distance = box.distance(d, i)) {
        least = std::min(least.value_or(*distance), *distance);
        most = std::max(most.value_or(*distance), *distance);
      }
    low += least.value_or(0), high += most.value_or(0);
  }
  return {low, high};
}

/// Reports a view of make_view whose address or strides lack the promised alignment, and a box that
/// is not in the memory of any argument; such a box is treated as outside.
void check_made(Program& p, OpId id, const MadeView& view, Type type, Box& box) {
  const ViewFacts& facts = type.view_facts();
  const std::string_view mnemonic = info(p.op(id).opcode).mnemonic;
  const std::int64_t size = size_bytes(type.dtype());
  if (view.address % facts.align != 0)
    p.report(FindingKind::Misaligned, id, p.op(id).loc, [&] {
      return fmt::format("{} of a view at {:#x}, which is not a multiple of {} bytes as promised",
                         mnemonic, view.address, facts.align);
    });
  for (std::size_t d = 0; d < facts.strides.size(); ++d)
    if (facts.strides[d] == kDynamic && view.tensor.strides[d] % facts.stride_div[d] != 0)
      p.report(FindingKind::Misaligned, id, p.op(id).loc, [&] {
        return fmt::format(
            "{} of a view whose stride along dimension {} is {} bytes, which is not a "
            "multiple of {} as promised",
            mnemonic, d, view.tensor.strides[d] * size, facts.stride_div[d] * size);
      });
  const MemoryRegion* region = box.region;
  const auto [low, high] = reach_of(box);
  if (region != nullptr && box.first + low >= region->begin &&
      box.first + high + size <= region->end)
    return;
  // The argument at the view's address may be only a part of the memory that the view covers.
  const MemoryRegion* around =
      region == nullptr ? nullptr
                        : p.evaluation().memory.holding(box.first + low, box.first + high + size);
  if (around != nullptr) {
    box.region = around;
    return;
  }
  box.is_outside = true;
  p.report(FindingKind::OutOfBounds, id, p.op(id).loc, [&]() -> std::string {
    const std::string_view verb = p.op(id).opcode == Opcode::StoreView ? "writes" : "reads";
    if (region == nullptr)
      return fmt::format("{} {} a view at {:#x}, which no argument owns", mnemonic, verb,
                         view.address);
    const Memory& memory = p.evaluation().memory;
    const std::byte* outside = box.first + low < region->begin ? box.first + low : box.first + high;
    return fmt::format("{} {} {}, outside of {} ({} bytes)", mnemonic, verb,
                       memory.describe(*region, memory.address_of(*region, outside)), region->name,
                       region->end - region->begin);
  });
}

/// Applies the limits that a box may have after its offsets: elements from them on are outside.
void apply_limits(Program& p, OpId id, const BoxAccess& a, std::span<const std::int64_t> offsets,
                  Box& box) {
  for (std::size_t v = 0; v < a.axes.size() && a.has_limits() && !box.is_outside; ++v) {
    const AccessAxis& axis = a.axes[v];
    if (axis.is_gathered()) continue;  // its places are inside, or have no address
    const std::int64_t remaining = p.integer(id, axis.limit, "a limit").value_or(0) - offsets[v];
    if (axis.tile_dim < 0) {
      box.is_outside |= remaining <= 0;
    } else {
      Box::Dim& dim = box.dims[static_cast<std::size_t>(axis.tile_dim)];
      dim.high = std::clamp(remaining, dim.low, dim.high);
    }
  }
}

}  // namespace

Box make_box(Program& p, OpId id) { return make_box(p, id, access_of(p.kernel(), p.op(id))); }

Box make_box(Program& p, OpId id, const BoxAccess& a) {
  Box box;
  const TileValue& of = p.value(a.view);
  box.region = of.region;
  box.tensor = &tensor_of(of);
  const TensorArg& t = *box.tensor;
  box.first = static_cast<const std::byte*>(t.base);
  const std::int64_t size = size_bytes(t.dtype);
  if (const int gathered = a.gathered_dim(); gathered >= 0)
    box.gathered = static_cast<std::size_t>(gathered);
  std::vector<std::int64_t> offsets(t.dims.size(), 0);
  bool has_offsets = true;
  for (std::size_t d = 0; d < t.dims.size(); ++d) {
    if (a.axes[d].is_gathered()) {
      select_places(p, id, a.axes[d].offset, d, box);
      continue;
    }
    const auto offset = offset_along(p, id, a.axes[d].offset);
    has_offsets &= offset.has_value();
    offsets[d] = offset.value_or(0);
    const bool is_fixed = a.axes[d].tile_dim < 0;
    if (!offset || (is_fixed && (*offset < 0 || *offset >= t.dims[d]))) box.is_outside = true;
  }
  for (std::size_t i = 0; i < a.along.size(); ++i) {
    const auto d = static_cast<std::size_t>(a.along[i]);
    const std::int64_t extent = a.axes[d].extent;
    if (i == box.gathered) {
      box.dims.push_back({extent, 0, 0, extent});
      continue;
    }
    const std::int64_t low = std::clamp<std::int64_t>(-offsets[d], 0, extent);
    const std::int64_t high = std::clamp<std::int64_t>(t.dims[d] - offsets[d], low, extent);
    box.dims.push_back({extent, t.strides[d] * size, low, high});
  }
  if (has_offsets) check_proofs(p, id, box, a, offsets);
  apply_limits(p, id, a, offsets, box);
  const bool touches_memory =
      !box.is_outside &&
      std::ranges::all_of(box.dims, [](const Box::Dim& d) { return d.low < d.high; });
  for (std::size_t d = 0; touches_memory && box.region != nullptr && d < offsets.size(); ++d)
    box.first += offsets[d] * t.strides[d] * size;
  if (touches_memory && of.made) check_made(p, id, *of.made, p.kernel().type(a.view), box);
  return box;
}

namespace {

void mark_edges(const Box& box, TileValue& out) {
  for (std::size_t d = 0; d < box.dims.size(); ++d)
    for (std::int64_t i = 0; i < box.dims[d].extent; ++i)
      out.edges.push_back(d == box.gathered ? box.places[static_cast<std::size_t>(i)].is_absent
                                            : i < box.dims[d].low || i >= box.dims[d].high);
}

}  // namespace

void mark_outside(const Box& box, TileValue& out) {
  if (box.is_inside()) return;
  if (box.is_outside) out.states.assign(out.cells.size(), kAbsent);
  mark_edges(box, out);
}

void read_box(Program& p, OpId id, const Box& box, Cell* cells) {
  if (!box.is_inside()) std::fill_n(cells, box.count(), Cell{.i = 0});
  visit_dtype(box.tensor->dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_inside(
        box, [&](std::size_t i, const std::byte* address) { cells[i] = read_element<T>(address); });
  });
  if (box.region == nullptr) return;
  const auto size = static_cast<std::size_t>(size_bytes(box.tensor->dtype));
  if (p.checks_released())
    for_each_inside(box, [&](std::size_t, const std::byte* address) {
      p.check_released(*box.region, address, size, id);
    });
  if (box.region->shadow == nullptr) return;
  for_each_inside(box, [&](std::size_t, const std::byte* address) {
    p.touch_read(*box.region, address, size, id);
  });
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
  const std::int64_t extent = tensor_of(p.operand(id, 0)).dims.at(axis);
  p.result(id).set_scalar(canonical(Cell{.i = extent}, p.result_type(id).dtype()));
}

void eval_ViewStride(Program& p, OpId id) {
  const auto axis = static_cast<std::size_t>(p.attrs(id).i(AttrName::axis));
  const std::int64_t stride = tensor_of(p.operand(id, 0)).strides.at(axis);
  p.result(id).set_scalar(canonical(Cell{.i = stride}, p.result_type(id).dtype()));
}

void eval_ViewPtr(Program& p, OpId id) {
  const TileValue& view = p.operand(id, 0);
  p.result(id).set_scalar(Cell{.i = view.made ? view.made->address : view.region->address});
}

void eval_MakeView(Program& p, OpId id) {
  const auto address = p.integer(id, 0, "an address");
  auto made = std::make_shared<MadeView>();
  const std::size_t rank = p.op(id).operands.size() / 2;
  made->address = address.value_or(0);
  made->tensor.dtype = p.result_type(id).dtype();
  for (std::size_t d = 0; d < rank; ++d) {
    made->tensor.dims.push_back(p.integer(id, 1 + d, "an extent").value_or(0));
    made->tensor.strides.push_back(p.integer(id, 1 + rank + d, "a stride").value_or(0));
  }
  TileValue& out = p.result(id);
  // The size is 0 because the address may be that of an empty tensor, or one past the end of
  // another.
  if (std::byte* base = p.evaluation().memory.resolve(made->address, 0, out.region))
    made->tensor.base = base;
  else
    out.region = nullptr;
  out.made = std::move(made);
}

void eval_LoadView(Program& p, OpId id) {
  const Type type = p.result_type(id);
  const Box box = make_box(p, id);
  TileValue& out = p.result(id);
  out.reset(static_cast<std::size_t>(type.count()));
  read_box(p, id, box, out.cells.data());
  // A single element is never absent: it is 0 outside the view, except for fill_absent.
  if (type.is_tile()) mark_outside(box, out);
}

namespace {

/// Returns true if two elements of the box may have one address.
bool may_overlap(const Box& box) {
  if (box.gathered != Box::kNone) return true;
  std::vector<std::pair<std::int64_t, std::int64_t>> lines;  // step and length, in bytes
  for (const Box::Dim& d : box.dims)
    if (const std::int64_t step = std::abs(d.step_bytes), steps = d.high - d.low - 1; steps > 0)
      lines.emplace_back(step, step * steps);
  std::ranges::sort(lines);
  std::int64_t end = size_bytes(box.tensor->dtype);
  for (const auto& [step, length] : lines) {
    if (step < end) return true;
    end += length;
  }
  return false;
}

/// Applies store_view or atomic_view to each present element of the box.
template <class Write>
void for_each_stored(Program& p, OpId id, const Box& box, const Write& write) {
  const Value tile = stored_value(p.op(id));
  const Cell* cells = p.dense(tile);
  const std::uint8_t* states = p.states(tile);
  if (box.region == nullptr) return;
  const MemoryRegion& region = *box.region;
  for_each_inside(box, [&](std::size_t i, const std::byte* address) {
    if (states != nullptr && (states[i] & kAbsent) != 0) return note_drop(p, id, region, address);
    if (states != nullptr && (states[i] & kPoison) != 0) {
      const Memory& m = p.evaluation().memory;
      p.report_poison(id, "writes", "to " + m.describe(region, m.address_of(region, address)),
                      p.value(tile).origin);
    }
    write(region, i, region.base + (address - region.base), cells[i]);
  });
}

/// Combines the element with the value according to attr kind, and returns the old element.
Cell combine_at(Program& p, OpId id, const MemoryRegion& region, std::byte* address, Cell value) {
  const DType dtype = p.operand_type(id, 0).dtype();
  const auto size = static_cast<std::size_t>(size_bytes(dtype));
  p.touch_atomic(region, address, size, id, "relaxed");
  std::uint64_t bits = 0;
  std::memcpy(&bits, address, size);
  const Cell old = from_bits(bits, dtype);
  const std::uint64_t before = bits;
  bits = to_bits(combine_of(p.attrs(id).s(AttrName::kind))(old, value, dtype), dtype);
  std::memcpy(address, &bits, size);
  p.effects += bits != before ? 1 : 0;
  return old;
}

}  // namespace

void eval_StoreView(Program& p, OpId id) {
  const Box box = make_box(p, id);
  if (p.attrs(id).find(AttrName::kind) != nullptr)
    return for_each_stored(
        p, id, box, [&](const MemoryRegion& region, std::size_t, std::byte* address, Cell value) {
          combine_at(p, id, region, address, value);
        });
  const bool may_repeat = may_overlap(box);
  visit_dtype(p.operand_type(id, 0).dtype(), [&](auto tag) {
    const auto size = sizeof(typename decltype(tag)::type);
    for_each_stored(p, id, box,
                    [&](const MemoryRegion& region, std::size_t, std::byte* address, Cell value) {
                      p.touch_write(region, address, size, id);
                      std::uint64_t before = 0, bits = 0;
                      if (may_repeat) std::memcpy(&before, address, size);
                      write_element<typename decltype(tag)::type>(address, value);
                      if (!may_repeat) return;
                      std::memcpy(&bits, address, size);
                      p.stored.push_back({&region, address, bits, bits != before});
                    });
  });
  p.report_repeats(id);
}

void eval_AtomicView(Program& p, OpId id) {
  TileValue& out = p.result(id);
  out.reset(static_cast<std::size_t>(p.result_type(id).count()));
  const Box box = make_box(p, id);
  // A place outside the view has no old value and yields 0, as a gather does.
  if (!box.places.empty()) std::ranges::fill(out.cells, Cell{.i = 0});
  // Elements that are absent in the value or outside the view are also absent in the result.
  const TileValue& value = p.value(stored_value(p.op(id)));
  if (!box.is_inside()) mark_edges(box, out);
  out.join_edges(value.edges);
  out.states.assign(out.cells.size(), box.is_outside ? kPoison : 0);
  for (std::size_t i = 0; i < out.states.size(); ++i) out.states[i] |= value.state(i) & kAbsent;
  out.origin = id;
  for_each_stored(p, id, box,
                  [&](const MemoryRegion& region, std::size_t i, std::byte* address, Cell value) {
                    out.cells[i] = combine_at(p, id, region, address, value);
                    out.states[i] = 0;
                  });
}

}  // namespace tegula::ir::interp
