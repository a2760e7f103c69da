// Shared memory of the machine form, and asynchronous copies into it. A copy reads its source at
// issue and lands when its group is waited for; between the two, other accesses to its destination
// are not allowed.
#include <fmt/format.h>

#include <algorithm>

#include "ir/access.h"
#include "ir/eval/box.h"
#include "ir/eval/slot.h"

namespace tegula::ir::interp {
namespace {}  // namespace

std::optional<Slot> slot_of(Program& p, OpId id, std::size_t tile_operand, std::size_t slot_operand,
                            std::size_t tile_rank) {
  SharedTile* tile = p.operand(id, tile_operand).shared.get();
  const std::span<const std::int64_t> shape(tile->shape);
  if (shape.size() == tile_rank) return Slot{tile, 0, tile->cells.size(), shape};
  std::int64_t slot = 0;
  if (p.op(id).operands.size() > slot_operand) {
    const auto given = p.integer(id, slot_operand, "a slot");
    if (!given) return std::nullopt;
    slot = *given;
  }
  if (slot < 0 || slot >= shape[0]) {
    p.report(FindingKind::OutOfBounds, id, p.op(id).loc, [&] {
      return fmt::format("{} uses slot {} of {}", info(p.op(id).opcode).mnemonic, slot, shape[0]);
    });
    return std::nullopt;
  }
  const std::size_t count = tile->cells.size() / static_cast<std::size_t>(shape[0]);
  return Slot{tile, static_cast<std::size_t>(slot) * count, count, shape.subspan(1)};
}

namespace {

bool is_other_role(std::uint32_t tag, std::uint32_t own_tag) {
  return tag != 0 && tag != own_tag && tag / 64 == own_tag / 64;
}

}  // namespace

void touch_shared(Program& p, OpId id, const Slot& slot, bool writes) {
  if (p.role_tag == 0) return;
  SharedTile& t = *slot.tile;
  t.writers.resize(t.cells.size());
  t.readers.resize(t.cells.size());
  for (std::size_t i = 0; i < slot.count; ++i) {
    std::uint32_t &writer = t.writers[slot.first + i], &reader = t.readers[slot.first + i];
    if (is_other_role(writer, p.role_tag) || (writes && is_other_role(reader, p.role_tag)))
      p.report(FindingKind::RoleRace, id, p.op(id).loc, [&] {
        return fmt::format(
            "{} touches element {} of shared memory that another role touches, with no channel "
            "between them",
            info(p.op(id).opcode).mnemonic, slot.index_of(i));
      });
    if (writes)
      writer = p.role_tag;
    else if (!is_other_role(reader, p.role_tag))
      reader = p.role_tag;
  }
}

void report_in_flight(Program& p, OpId id, const Slot& slot, std::size_t i) {
  p.report(FindingKind::PendingCopy, id, p.op(id).loc, [&] {
    return fmt::format(
        "{} touches element {} of shared memory while a copy_async into it has not been waited for",
        info(p.op(id).opcode).mnemonic, slot.index_of(i));
  });
}

namespace {

/// Calls visit(first element, elements) for each slot of `t` that is in bytes [begin, end) of
/// shared memory. The layout determines the bytes inside a slot, so slots are the unit.
template <class Visit>
void for_each_slot_in(const SharedTile& t, std::int64_t begin, std::int64_t end,
                      const Visit& visit) {
  const std::int64_t slots = t.shape.size() > 1 ? t.shape[0] : 1;
  const auto elements = static_cast<std::int64_t>(t.cells.size()) / slots;
  const std::int64_t slot_bytes = t.bytes / slots;
  for (std::int64_t s = 0; s < slots; ++s) {
    const std::int64_t slot_begin = t.offset + s * slot_bytes;
    if (slot_begin < end && begin < slot_begin + slot_bytes) visit(s * elements, elements);
  }
}

}  // namespace

void clobber_others(Program& p, const SharedTile& written, std::size_t first, std::size_t count) {
  if (written.offset < 0 || p.placed.size() < 2) return;
  const auto elements = static_cast<std::int64_t>(written.cells.size());
  const std::int64_t begin =
      written.offset + written.bytes * static_cast<std::int64_t>(first) / elements;
  const std::int64_t end =
      written.offset + written.bytes * static_cast<std::int64_t>(first + count) / elements;
  for (const auto& place : p.placed) {
    const auto other = place.lock();
    if (!other || other.get() == &written) continue;
    for_each_slot_in(*other, begin, end, [&](std::int64_t from, std::int64_t n) {
      std::fill_n(other->states.begin() + from, n, std::uint8_t{kUnwritten});
    });
  }
}

void land(const AsyncCopy& copy) {
  std::ranges::copy(copy.cells, copy.to->cells.begin() + static_cast<std::ptrdiff_t>(copy.first));
  std::fill_n(copy.to->states.begin() + static_cast<std::ptrdiff_t>(copy.first), copy.cells.size(),
              0);
}

void check_readable(Program& p, OpId id, const Slot& slot) {
  for (std::size_t i = 0; i < slot.count; ++i) {
    const std::uint8_t state = slot.tile->states[slot.first + i];
    if ((state & kInFlight) != 0) report_in_flight(p, id, slot, i);
    if ((state & kUnwritten) != 0 && (state & kInFlight) == 0)
      p.report(FindingKind::UninitializedShared, id, p.op(id).loc, [&] {
        return fmt::format(
            "{} reads element {} of shared memory that nothing has written, or only another "
            "allocation at the same offset",
            info(p.op(id).opcode).mnemonic, slot.index_of(i));
      });
  }
}

void eval_SmemAlloc(Program& p, OpId id) {
  const Type type = p.result_type(id);
  auto tile = std::make_shared<SharedTile>();
  tile->dtype = type.dtype();
  tile->shape.assign(type.shape().begin(), type.shape().end());
  tile->cells.resize(static_cast<std::size_t>(type.count()), Cell{.i = 0});
  tile->states.assign(tile->cells.size(), kUnwritten);
  tile->offset = p.attrs(id).i(AttrName::offset, -1);
  tile->bytes = p.attrs(id).i(AttrName::bytes, type.count() * size_bytes(tile->dtype));
  p.result(id).shared = tile;
  if (tile->offset < 0) return;
  std::erase_if(p.placed, [](const auto& place) { return place.expired(); });
  p.placed.push_back(tile);
}

void eval_SmemStore(Program& p, OpId id) {
  ++p.effects;
  const Value v = p.op(id).operands[1];
  const auto slot = slot_of(p, id, 0, 2, p.kernel().type(v).shape().size());
  if (!slot) return;
  const Cell* cells = p.dense(v);
  const std::uint8_t* states = p.states(v);
  SharedTile& t = *slot->tile;
  for (std::size_t i = 0; i < slot->count; ++i) {
    if ((t.states[slot->first + i] & kInFlight) != 0) report_in_flight(p, id, *slot, i);
    t.cells[slot->first + i] = cells[i];
    t.states[slot->first + i] = states == nullptr ? 0 : states[i];
  }
  clobber_others(p, t, slot->first, slot->count);
  touch_shared(p, id, *slot, /*writes=*/true);
}

void eval_SmemLoad(Program& p, OpId id) {
  const Type type = p.result_type(id);
  TileValue& out = p.result(id);
  out.reset(static_cast<std::size_t>(type.count()));
  std::ranges::fill(out.cells, Cell{.i = 0});
  const auto slot = slot_of(p, id, 0, 1, type.shape().size());
  if (!slot) return;
  const SharedTile& t = *slot->tile;
  for (std::size_t i = 0; i < slot->count; ++i) {
    const std::uint8_t state = t.states[slot->first + i];
    out.cells[i] = t.cells[slot->first + i];
    if ((state & (kAbsent | kPoison)) != 0) out.add_state(i, state & (kAbsent | kPoison));
  }
  check_readable(p, id, *slot);
  touch_shared(p, id, *slot, /*writes=*/false);
}

std::optional<AsyncCopy> start_copy(Program& p, OpId id) {
  const BoxAccess a = access_of(p.kernel(), p.op(id));
  const auto slot = slot_of(p, id, 0, 1, a.along.size());
  if (!slot) return std::nullopt;
  AsyncCopy copy{p.value(a.target[0]).shared, slot->first, std::vector<Cell>(slot->count)};
  for (std::size_t i = 0; i < a.boxes(); ++i) {
    Box box = make_box(p, id, a.box(i));
    if (a.rows) {
      Box::Dim& dim = box.dims[0];
      const std::int64_t rows = p.integer(id, a.rows, "a number of rows").value_or(0);
      dim.high = std::clamp(rows - dim.extent * static_cast<std::int64_t>(i), dim.low, dim.high);
    }
    read_box(p, id, box, copy.cells.data() + slot->count / a.boxes() * i);
  }
  for (std::size_t i = 0; i < slot->count; ++i) {
    std::uint8_t& state = slot->tile->states[slot->first + i];
    if ((state & kInFlight) != 0) report_in_flight(p, id, *slot, i);
    state |= kInFlight;
  }
  clobber_others(p, *slot->tile, slot->first, slot->count);
  touch_shared(p, id, *slot, /*writes=*/true);
  return copy;
}

void eval_CopyAsync(Program& p, OpId id) {
  ++p.effects;
  if (auto copy = start_copy(p, id)) p.asyncs.open.push_back(std::move(*copy));
}

void eval_AsyncCommit(Program& p, OpId) {
  p.asyncs.groups.push_back(std::move(p.asyncs.open));
  p.asyncs.open.clear();
}

void eval_AsyncWait(Program& p, OpId id) {
  const auto max_in_flight = static_cast<std::size_t>(p.attrs(id).i(AttrName::count));
  auto& groups = p.asyncs.groups;
  for (; groups.size() > max_in_flight; groups.pop_front())
    for (const AsyncCopy& copy : groups.front()) land(copy);
}

}  // namespace tegula::ir::interp
