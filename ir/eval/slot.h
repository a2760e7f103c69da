#pragma once
// Slots of shared tiles, for the ops that copy into them and read them.
#include <optional>
#include <string>

#include "ir/eval/program.h"

namespace tegula::ir::interp {

/// The elements of one slot of a shared tile.
struct Slot {
  SharedTile* tile = nullptr;
  std::size_t first = 0, count = 0;
  std::span<const std::int64_t> shape;  ///< shape of the slot

  std::string index_of(std::size_t i) const {
    return index_str(shape, static_cast<std::int64_t>(i));
  }
};

/// The slot that operand `slot_operand` (if the op has it) names of the shared tile `tile_operand`.
/// Nothing, and reported, where there is no such slot.
std::optional<Slot> slot_of(Program& p, OpId id, std::size_t tile_operand, std::size_t slot_operand,
                            std::size_t tile_rank);

/// Elements that the running role touches: another role of the same execution must not, unless both
/// read.
void touch_shared(Program& p, OpId id, const Slot& slot, bool writes);
/// Marks the elements at the same offsets in other allocations as lost.
void clobber_others(Program& p, const SharedTile& written, std::size_t first, std::size_t count);
/// Reports the elements of the slot that cannot be read: copies in flight, or nothing written.
void check_readable(Program& p, OpId id, const Slot& slot);

/// The copy of a box (operands shared tile, slot, .., view, offsets) that the op starts.
std::optional<AsyncCopy> start_copy(Program& p, OpId id, std::size_t view);
void land(const AsyncCopy& copy);

}  // namespace tegula::ir::interp
