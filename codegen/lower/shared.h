#pragma once
// Addresses of registers in shared memory, and loads and stores of whole distributed tiles there.
#include "codegen/lower/lowering.h"
#include "ir/layout/matrix_access.h"
#include "ir/layout/shared_layout.h"

namespace tegula::codegen {

/// Returns base + ((thread flips ^ flip) + adds), one address per part, as registers. `more_flips`,
/// if given, is XORed into all of them.
ir::Value shared_addresses(Lowering& l, ir::Value base, const std::vector<ir::ThreadOffset>& slabs,
                           const std::vector<std::pair<int, ir::RegisterOffset>>& parts,
                           ir::Value more_flips = {});
/// Loads the registers of `dist` from a tile at `base`; only the `wanted` registers, in that order,
/// unless empty.
ir::Value load_shared(Lowering& l, ir::Value base, const ir::SharedLayout& shared,
                      const ir::LinearLayout& dist, ir::Elem elem, bool matrices,
                      std::vector<int> wanted = {});
/// Loads all registers from a tile at `base` in the shared memory of a CTA of the cluster.
ir::Value load_cluster(Lowering& l, ir::Value base, const ir::SharedLayout& shared,
                       const ir::LinearLayout& dist, ir::Elem elem, ir::Value more_flips = {});

/// Stores a tile at `base` + `offset` bytes; the offset becomes an immediate.
void store_shared(Lowering& l, ir::Value base, const ir::SharedLayout& shared,
                  const ir::LinearLayout& dist, ir::Value registers, bool matrices,
                  std::int64_t offset = 0);

/// A slot of a shared tile: its layout without the slot dimension, and its address.
struct SmemSlot {
  ir::SharedLayout layout;
  ir::Value base;
};
/// Returns the slot of a shared tile; the whole tile if `machine_slot` is null.
SmemSlot slot_of(Lowering& l, ir::Value machine_shared, ir::Value machine_slot);

}  // namespace tegula::codegen
