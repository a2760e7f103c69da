#pragma once
// A captured one-dimensional table as the mask analyses use it at launch: bounds over any range of
// it, and the positions of given values.
#include <cstdint>
#include <span>
#include <vector>

#include "ir/analysis/mask/domain.h"

namespace tegula::ir {

class MaskTable {
 public:
  explicit MaskTable(std::vector<std::int64_t> values);

  std::int64_t size() const { return static_cast<std::int64_t>(levels_[0].size()); }
  /// True if `index` lies in the table.
  bool has(Interval index) const { return 0 <= index.lo && index.hi < size(); }
  /// Bounds of the entries; `index` must lie in the table. O(log size).
  Interval range(Interval index) const;
  bool is_ascending() const { return is_ascending_; }
  /// First index of an ascending table whose entry is >= v; size() if there is none.
  std::int64_t first_at_least(std::int64_t v) const;

 private:
  /// levels_[0] are the entries, each of the next level covers kFan of the one below.
  static constexpr std::int64_t kFan = 16;
  std::vector<std::vector<Interval>> levels_;
  bool is_ascending_ = true;
};

/// Parameters that a launch passes to a mask: numbers and tables, by the slots of its expression. A
/// missing one may be anything.
struct MaskParams {
  MaskParams() = default;
  MaskParams(std::span<const std::int64_t> n, std::span<const MaskTable> t = {})
      : numbers(n), tables(t) {}
  MaskParams(const std::vector<std::int64_t>& n, std::span<const MaskTable> t = {})
      : numbers(n), tables(t) {}
  std::span<const std::int64_t> numbers;
  std::span<const MaskTable> tables;
};

}  // namespace tegula::ir
