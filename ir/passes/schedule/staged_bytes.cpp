#include "ir/passes/schedule/staged_bytes.h"

#include <algorithm>

#include "ir/analysis/tma_store.h"

namespace tegula::ir {

std::int64_t staged_bytes(const Kernel& k, const Plan& p) {
  std::int64_t most = 0;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode != Opcode::StoreView || !why_not_tma_store(k, k[op]).empty()) return;
    const Type tile = k.type(k[op].operands[1]);
    const std::int64_t rows = tile.shape()[0], columns = tile.shape()[1];
    const bool in_blocks = p.epilogue_tile_n > 0 && columns % p.epilogue_tile_n == 0;
    most = std::max(most, rows * (in_blocks ? p.epilogue_tile_n : columns) *
                              size_bytes(tile.dtype()) * p.groups());
  });
  return most;
}

}  // namespace tegula::ir
