#pragma once
// A captured one-dimensional table for the mask analyses at launch time: bounds over any index
// range, and the positions of given values.
#include <cstdint>
#include <span>
#include <vector>

#include "ir/analysis/mask/domain.h"

namespace tegula::ir {

class MaskTable {
 public:
  explicit MaskTable(std::vector<std::int64_t> values);

  std::int64_t size() const { return static_cast<std::int64_t>(levels_[0].size()); }
  /// Returns true if the whole `index` range is in bounds.
  bool has(Interval index) const { return 0 <= index.lo && index.hi < size(); }
  /// Returns bounds of the entries at `index`, which must be in bounds. O(log size).
  Interval range(Interval index) const;
  bool is_ascending() const { return is_ascending_; }
  /// Returns the first index of an ascending table whose entry is >= v, or size() if there is none.
  std::int64_t first_at_least(std::int64_t v) const;

 private:
  /// levels_[0] contains the entries; each element of another level covers kFan elements of the
  /// level below.
  static constexpr std::int64_t kFan = 16;
  std::vector<std::vector<Interval>> levels_;
  bool is_ascending_ = true;
};

/// Parameters that a launch passes to a mask: numbers and tables, indexed by the slots of its
/// expression. A missing parameter may have any value.
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
