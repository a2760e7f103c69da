#include "kernels/attention/kv_range_source.h"

#include "tegula/tegula.h"

namespace tegula {

KvRangeSource::KvRangeSource(const AttentionSpec& spec) : spec_(spec) {
  if (spec.mask && !spec.kv_range && !spec.full_kv_range) derived_.emplace(spec.mask);
}

KvBlockIterator KvRangeSource::of(const QueryRows& rows, const Tile& length, int block) const {
  return KvBlockIterator::range(seen(rows.first, rows.last, length), length, block);
}

KvRanges KvRangeSource::seen(const Tile& first, const Tile& last, const Tile& length) const {
  if (derived_) return derived_->record(first, last, length);
  KvRanges keys;
  if (spec_.kv_range) keys.visible = spec_.kv_range(first, last, length);
  if (keys.visible) keys.visible->lo = max(keys.visible->lo, 0);
  if (spec_.full_kv_range) keys.full = spec_.full_kv_range(first, last, length);
  return keys;
}

}  // namespace tegula
