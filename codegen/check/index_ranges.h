#pragma once
// Ranges of integers in the simt form, per warpgroup; mainly of shared-memory addresses, relative
// to the start of dynamic shared memory.
#include <unordered_set>
#include <vector>

#include "ir/loop.h"

namespace tegula::codegen {

/// Threads and warps of a warpgroup.
using ir::kWarpgroupThreads, ir::kWarpgroupWarps;

/// Integers from `lo` to `hi`; if `lo` is not negative, only bits of `bits` may be set.
struct Range {
  std::int64_t lo = 0, hi = 0, bits = 0;

  static Range of(std::int64_t lo, std::int64_t hi);
  static Range exactly(std::int64_t n) { return {n, n, n < 0 ? -1 : n}; }
  static Range unknown();
  bool is_known() const;
  bool is_one() const { return lo == hi; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// Bytes [first, end); empty if unknown.
struct ByteRange {
  std::int64_t first = 0, end = 0;
  bool overlaps(const ByteRange& o) const { return first < o.end && o.first < end; }
};

/// Computes ranges on demand. Evaluates loops repeatedly until their carries stop growing.
class IndexRanges {
 public:
  explicit IndexRanges(const ir::Kernel& simt);

  /// Returns the range over all registers of the value.
  Range of(ir::Value v, int warpgroup);
  /// Returns the hull of the byte ranges that begin at these addresses, each `bytes` long.
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
  std::vector<std::vector<Known>> known_;  ///< per warpgroup and value
  std::unordered_set<ir::Value> extents_;  ///< tensor extents, given at launch
  std::vector<ir::Value> trail_;           ///< computed values, in order of computation
  int group_ = 0;
};

}  // namespace tegula::codegen
