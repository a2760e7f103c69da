#include "kernels/attention/kv_block_iterator.h"

#include <utility>

namespace tegula::kernels {

KvBlockIterator KvBlockIterator::range(const KvRanges& keys, const Tile& length, int block) {
  KvBlockIterator v;
  v.length_ = length;
  v.block_ = block;
  v.has_end_ = keys.visible || !keys.visible_intervals.empty();
  if (keys.visible_intervals.empty()) {
    const KvRange all = keys.visible.value_or(KvRange{tegula::full<i32>(0), length});
    v.lo_ = all.lo;
    v.hi_ = all.hi;
    v.visible_hi_ = all.hi;
    if (keys.full) v.full_ = {*keys.full};
    return v;
  }
  v.full_ = keys.full_intervals;
  v.lo_ = Tile(0);
  v.place(keys.visible_intervals);
  return v;
}

/// Sorts the intervals and removes keys that blocks of earlier intervals contain: each block begins
/// at the first visible key not yet visited, which minimizes the number of blocks.
void KvBlockIterator::place(const std::vector<KvRange>& keys) {
  for (const KvRange& r : keys) {
    const Tile some = r.lo < r.hi;
    visible_.push_back({where(some, r.lo, 0), where(some, r.hi, 0)});
  }
  for (std::size_t n = visible_.size(); n > 1; --n)
    for (std::size_t i = 0; i + 1 < n; ++i) {
      KvRange &x = visible_[i], &y = visible_[i + 1];
      const Tile keep = x.lo <= y.lo;
      const KvRange low{where(keep, x.lo, y.lo), where(keep, x.hi, y.hi)};
      y = {where(keep, y.lo, x.lo), where(keep, y.hi, x.hi)};
      x = low;
    }
  Tile taken = tegula::full<i32>(0), steps = tegula::full<i32>(0);
  for (const KvRange& s : visible_) {
    const Tile first = max(s.lo, taken), blocks = cdiv(max(0, s.hi - first), block_);
    const Tile before = steps * block_;
    parts_.push_back({first - before, steps});
    steps = steps + blocks;
    taken = first + blocks * block_;
  }
  hi_ = steps;
}

KvBlockIterator KvBlockIterator::list(const BlockListViews& views, const Index& b, const Index& h,
                                      const Tile& m, int block,
                                      std::optional<KvIndexWindow> columns) {
  KvBlockIterator v;
  v.block_ = block;
  v.lo_ = Tile(0);
  v.hi_ = fill_absent(views.counts(b, h, m), 0);
  v.full_count_ = views.full ? fill_absent((*views.full)(b, h, m), 0) : tegula::full<i32>(0);
  v.row_ = BlockListRow{views, b.first(), h.first(), m, std::move(columns)};
  return v;
}

KvBlockIterator KvBlockIterator::only_if(const Tile& condition) const {
  KvBlockIterator v = *this;
  v.hi_ = where(condition, hi_, lo_);
  v.has_step_ = false;
  return v;
}

KvBlockIterator KvBlockIterator::with_min_one_block() const {
  KvBlockIterator v = *this;
  v.has_step_ = !row_;
  return v;
}

Tile KvBlockIterator::end() const {
  const Tile hi = row_ || !parts_.empty() ? hi_ : min(hi_, length_);
  return has_step_ ? max(hi, lo_ + 1) : hi;
}

KvBlockIterator KvBlockIterator::reversed() const {
  KvBlockIterator v = *this;
  if (!row_ && parts_.empty())
    v.reverse_end_ = lo_ + lo_ + (cdiv(end() - lo_, block_) - 1) * block_;
  return v;
}

KvBlockIterator KvBlockIterator::chunk(const Tile& number, const Tile& parts) const {
  KvBlockIterator v = *this;
  const Tile hi = end(), each = cdiv(cdiv(max(hi - lo_, 0), stride()), parts) * stride();
  v.lo_ = lo_ + number * each;
  v.hi_ = min(hi, v.lo_ + each);
  v.has_step_ = false;
  return v;
}

tegula::detail::LoopRange KvBlockIterator::steps() const {
  const Tile last = end();
  if (has_step_) assume(lo_ < last);
  return tegula::steps(lo_, last, stride());
}

Tile KvBlockIterator::count() const { return cdiv(max(0, end() - lo_), stride()); }

Index KvBlockIterator::step(const Tile& number) const {
  return slice(lo_ + number * stride(), stride());
}

Tile KvBlockIterator::is_first(const Index& step) const { return step.first() == lo_; }

Index KvBlockIterator::block(const Index& step) const {
  const Tile& i = step.first();
  if (!parts_.empty()) {
    Tile origin = parts_[0].origin;
    for (std::size_t p = 1; p < parts_.size(); ++p)
      origin = where(i >= parts_[p].begin, parts_[p].origin, origin);
    return slice(origin + i * block_, block_);
  }
  if (reverse_end_) return slice(*reverse_end_ - i, block_);
  if (!row_) return step;
  const BlockListRow& r = *row_;
  return slice(fill_absent(r.views.blocks(r.b, r.h, r.m, r.at(i, full_count_)), 0) * block_,
               block_);
}

Tile KvBlockIterator::BlockListRow::at(const Tile& i, const Tile& full_count) const {
  if (!views.two_ended) return i;
  if (!columns) return where(i < full_count, i, views.blocks.dim(3) - 1 - (i - full_count));
  return where(i < full_count, columns->begin + i, columns->end - 1 - (i - full_count));
}

std::optional<Tile> KvBlockIterator::visible_end(const Index& step) const {
  if (!has_end_) return std::nullopt;
  if (visible_.empty()) return min(visible_hi_, length_);
  const Tile block_end = block(step).first() + block_;
  Tile end = visible_.front().hi;
  for (const KvRange& keys : visible_) end = where(keys.lo < block_end, max(end, keys.hi), end);
  return min(end, length_);
}

Tile KvBlockIterator::needs_mask(const Index& step, bool has_mask) const {
  if (row_) return step.first() >= full_count_;
  const Tile first = block(step).first(), end = first + block_;
  const Tile ragged = end > length_;
  if (!has_mask) return ragged;
  if (full_.empty()) return ragged || true;
  const auto is_before = [&](const KvRange& f) { return first < f.lo; };
  const auto is_behind = [&](const KvRange& f) { return end > f.hi; };
  if (full_.size() == 1) return ragged || is_before(full_[0]) || is_behind(full_[0]);
  Tile outside = Tile(true);
  for (const KvRange& f : full_) outside = outside && (is_before(f) || is_behind(f));
  return ragged || outside;
}

}  // namespace tegula::kernels
