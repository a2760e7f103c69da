#pragma once
// Ranges of integers in the simt form, per warpgroup: above all addresses in shared memory, counted
// from the start of dynamic shared memory.
#include <unordered_set>
#include <vector>

#include "ir/loop.h"

namespace tegula::codegen {

/// Threads of a warpgroup, and warps.
using ir::kWarpgroupThreads, ir::kWarpgroupWarps;

/// From `lo` to `hi`; where that is not negative, no bit outside of `bits` is set.
struct Range {
  std::int64_t lo = 0, hi = 0, bits = 0;

  static Range of(std::int64_t lo, std::int64_t hi);
  static Range exactly(std::int64_t n) { return {n, n, n < 0 ? -1 : n}; }
  static Range unknown();
  bool is_known() const;
  bool is_one() const { return lo == hi; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Bytes from `first` up to `end`; none where that is not known.
struct ByteRange {
  std::int64_t first = 0, end = 0;
  bool overlaps(const ByteRange& o) const { return first < o.end && o.first < end; }
};

/// Computed when asked for; loops are followed until their carries do not grow.
class IndexRanges {
 public:
  explicit IndexRanges(const ir::Kernel& simt);

  /// Range over all registers of the value.
  Range of(ir::Value v, int warpgroup);
  /// Hull of the `bytes` bytes from each of these addresses on.
  ByteRange bytes_at(ir::Value addresses, int warpgroup, std::int64_t bytes);

 private:
  struct Known {
    Range range;
    bool is_set = false;
  };
  Range compute(ir::Value v);
  Range of_merge(ir::Value v, const ir::Merge& merge);
  Range of_op(const ir::OpData& d);
  Range of_select(const ir::OpData& d);
  Range of_cmp(const ir::OpData& d);
  Range of_const(const ir::OpData& d);
  Range of_thread(const ir::OpData& d);
  Range of_cta(const ir::OpData& d);
  Range of_first(const ir::OpData& d);
  Range of_any(const ir::OpData& d);
  Range carried(ir::Value arg, ir::Value first, ir::Value next);
  Range under(ir::Value v, ir::Value assumed, const Range& range);
  Range operand(const ir::OpData& d, std::size_t i) { return get(d.operands[i]); }
  Range get(ir::Value v);
  void put(ir::Value v, const Range& r);
  void forget(std::size_t mark);

  const ir::Kernel& k_;
  std::vector<std::vector<Known>> known_;  ///< by warpgroup, of every value
  std::unordered_set<ir::Value> extents_;  ///< extents of tensors, given at launch
  std::vector<ir::Value> trail_;           ///< computed values, in order
  int group_ = 0;
};

}  // namespace tegula::codegen
