#pragma once
// Addresses of registers in shared memory, and loads and stores of whole distributed tiles there.
#include "codegen/lower/lowering.h"
#include "ir/layout/matrix_access.h"
#include "ir/layout/shared_layout.h"

namespace tegula::codegen {

/// base + ((thread flips ^ flip) + adds): one address per part, as registers. `more_flips` are
/// XORed to all, where there are any.
ir::Value shared_addresses(Lowering& l, ir::Value base, const std::vector<ir::ThreadOffset>& slabs,
                           const std::vector<std::pair<int, ir::RegisterOffset>>& parts,
                           ir::Value more_flips = {});
/// Registers of `dist` from a tile at `base`; only `wanted` of them (all if empty), in that order.
ir::Value load_shared(Lowering& l, ir::Value base, const ir::SharedLayout& shared,
                      const ir::LinearLayout& dist, ir::Elem elem, bool matrices,
                      std::vector<int> wanted = {});
/// All of them from the shared memory of a CTA of the cluster, `there`.
ir::Value load_cluster(Lowering& l, ir::Value there, const ir::SharedLayout& shared,
                       const ir::LinearLayout& dist, ir::Elem elem, ir::Value more_flips = {});

/// `behind`: of the tile from `base`, bytes, which the instructions' addresses have as immediates.
void store_shared(Lowering& l, ir::Value base, const ir::SharedLayout& shared,
                  const ir::LinearLayout& dist, ir::Value registers, bool matrices,
                  std::int64_t behind = 0);

/// A shared tile's slot: its layout without the slot dimension, and where it starts.
struct SmemSlot {
  ir::SharedLayout layout;
  ir::Value base;
};
/// The slot of a shared tile; the whole tile where `machine_slot` is none.
SmemSlot slot_of(Lowering& l, ir::Value machine_shared, ir::Value machine_slot);

}  // namespace tegula::codegen
