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

/// Returns the slot of shared tile `tile_operand` whose number is operand `slot_operand` (if the op
/// has it). Reports a fault and returns nothing if that slot does not exist.
std::optional<Slot> slot_of(Program& p, OpId id, std::size_t tile_operand, std::size_t slot_operand,
                            std::size_t tile_rank);

/// Records an access by the running role. Another role of the same execution must not access the
/// same elements unless both read.
void touch_shared(Program& p, OpId id, const Slot& slot, bool writes);
/// Marks the elements at the same offsets in other allocations as lost.
void clobber_others(Program& p, const SharedTile& written, std::size_t first, std::size_t count);
/// Reports the elements of the slot that cannot be read because a copy is in flight or they were
/// never written.
void check_readable(Program& p, OpId id, const Slot& slot);

/// Returns the copy of a box (operands shared tile, slot, .., view, offsets) that the op starts.
std::optional<AsyncCopy> start_copy(Program& p, OpId id);
void land(const AsyncCopy& copy);

}  // namespace tegula::ir::interp
