#pragma once
// Tiles of a kernel in machine form that are functions of column - row (ir/analysis/toeplitz.h). A
// warp's part of such a tile has few diagonals. Each lane computes some of them, and the lanes of
// the warp exchange their results through shared memory reserved for the warp, or by shuffles
// without enough memory. No warp waits for another.
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/toeplitz.h"
#include "ir/layout/thread_fn.h"
#include "ir/uses.h"

namespace tegula::ir {

/// Diagonals (column - row) of the elements that one warp holds in a layout: `count` of them,
/// starting at the warp's offset plus `first`.
struct WarpToeplitz {
  static constexpr int kLanes = 32;

  /// Returns nothing unless each index is a sum of lane, warp and register offsets.
  static std::optional<WarpToeplitz> of(const LinearLayout& layout);
  /// Returns the number of diagonals that a lane computes, including those beyond the last one.
  std::int64_t registers() const { return (count + kLanes - 1) / kLanes; }

  /// Returns true if a shuffle can supply each register: every lane holds one of its diagonals.
  bool is_for_shuffles() const;
  std::int64_t of_register(int r) const { return columns.constant(r) - rows.constant(r); }

  IndexFn rows, columns;
  std::int64_t first = 0, count = 0;
  /// Range of the lanes' offsets that are added to `of_register`.
  std::int64_t lane_first = 0, lane_count = 0;
};

/// Finds the values of a kernel in machine form for which the exchange is profitable.
class ToeplitzTiles {
 public:
  /// `has_memory`: exchange through shared memory; otherwise by shuffles.
  ToeplitzTiles(const Kernel& k, bool has_memory);

  /// Returns the diagonals if the op's result is computed per diagonal, else null.
  const WarpToeplitz* at(OpId op) const;
  /// Returns true if the op is computed only as part of such a result.
  bool is_within(OpId op) const { return within_.contains(op); }
  /// Returns the bytes of shared memory that a warp needs; 0 if it has no such values.
  std::int64_t bytes_per_warp() const;
  bool has_memory() const { return has_memory_; }

 private:
  void find(const Kernel& k, OpId op, const Uses& uses, ToeplitzAnalysis& diagonals);

  bool has_memory_;
  std::unordered_map<OpId, WarpToeplitz> roots_;
  std::unordered_set<OpId> within_;
};

}  // namespace tegula::ir
