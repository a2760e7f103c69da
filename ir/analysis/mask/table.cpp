#include "ir/analysis/mask/table.h"

#include <algorithm>

namespace tegula::ir {

MaskTable::MaskTable(std::vector<std::int64_t> values) {
  is_ascending_ = std::ranges::is_sorted(values);
  levels_.emplace_back();
  for (const std::int64_t v : values) levels_[0].push_back(Interval::point(v));
  while (levels_.back().size() > static_cast<std::size_t>(kFan)) {
    const std::vector<Interval>& below = levels_.back();
    std::vector<Interval> level;
    for (std::size_t i = 0; i < below.size(); ++i)
      if (i % kFan == 0)
        level.push_back(below[i]);
      else
        level.back() = hull(level.back(), below[i]);
    levels_.push_back(std::move(level));
  }
}

Interval MaskTable::range(Interval index) const {
  const auto entry = [&](std::size_t level, std::int64_t i) {
    return levels_[level][static_cast<std::size_t>(i)];
  };
  if (is_ascending_) return {entry(0, index.lo).lo, entry(0, index.hi).hi};
  Interval sum = entry(0, index.lo);
  std::int64_t lo = index.lo, hi = index.hi + 1;  // the remaining entries of the level
  for (std::size_t level = 0; lo < hi; ++level) {
    const bool is_top = level + 1 == levels_.size();
    while (lo < hi && (is_top || lo % kFan != 0)) sum = hull(sum, entry(level, lo++));
    while (lo < hi && hi % kFan != 0) sum = hull(sum, entry(level, --hi));
    lo /= kFan;
    hi /= kFan;
  }
  return sum;
}

std::int64_t MaskTable::first_at_least(std::int64_t v) const {
  return std::ranges::lower_bound(levels_[0], v, {}, &Interval::lo) - levels_[0].begin();
}

}  // namespace tegula::ir
