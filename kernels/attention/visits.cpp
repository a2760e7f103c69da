#include "kernels/attention/visits.h"

namespace tegula {

AttentionTiles attention_tiles(int head_dim) { return {128, head_dim <= 128 ? 128 : 64}; }

Visits Visits::range(const KvRange& keys, const std::optional<KvRange>& full, const Tile& length,
                     int block) {
  Visits v;
  v.lo_ = keys.lo;
  v.hi_ = keys.hi;
  v.length_ = length;
  v.block_ = block;
  v.full_ = full;
  return v;
}

Visits Visits::list(const ListViews& views, const Index& b, const Index& h, const Tile& m,
                    int block) {
  Visits v;
  v.block_ = block;
  v.lo_ = Tile(0);
  v.hi_ = fill_absent(views.counts(b, h, m), 0);
  v.full_count_ = fill_absent(views.full(b, h, m), 0);
  v.row_ = Row{views, b.first(), h.first(), m};
  return v;
}

detail::StepRange Visits::steps() const {
  if (row_) return tegula::steps(lo_, hi_, 1);
  return tegula::steps(lo_, min(hi_, length_), block_);
}

Index Visits::block(const Index& step) const {
  if (!row_) return step;
  const Row& r = *row_;
  Tile at = step.first();
  if (r.views.two_ended)
    at = where(at < full_count_, at, r.views.blocks.dim(3) - 1 - (at - full_count_));
  return slice(fill_absent(r.views.blocks(r.b, r.h, r.m, at), 0) * block_, block_);
}

Tile Visits::needs_mask(const Index& step, bool has_mask) const {
  if (row_) return step.first() >= full_count_;
  const Tile first = step.first(), end = first + step.block();
  const Tile ragged = end > length_;
  if (!has_mask) return ragged;
  return full_ ? ragged || first < full_->lo || end > full_->hi : ragged || true;
}

}  // namespace tegula
