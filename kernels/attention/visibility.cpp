#include "kernels/attention/visibility.h"

#include "tegula/tegula.h"

namespace tegula {

Visits Visibility::of(const Rows& rows, const Tile& length, int block) const {
  return Visits::range(seen(rows.first, rows.last, length), length, block);
}

KvRanges Visibility::seen(const Tile& first, const Tile& last, const Tile& length) const {
  if (const BlockMask* mask = way_.block_mask()) return mask->record(first, last, length);
  KvRanges keys;
  if (spec_.range) keys.visible = spec_.range(first, last, length);
  if (keys.visible) keys.visible->lo = max(keys.visible->lo, 0);
  if (spec_.full) keys.full = spec_.full(first, last, length);
  return keys;
}

}  // namespace tegula
