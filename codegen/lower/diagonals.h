#pragma once
// Tiles that are functions of column - row (ir/analysis/diagonals.h). A warp's part of such a tile
// has few diagonals: each lane computes some of them, and the lanes of the warp hand their results
// to each other, so that no warp waits for another: through shared memory that is the warp's own,
// or by shuffles where there is no room.
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/diagonals.h"
#include "ir/layout/thread_fn.h"
#include "ir/uses.h"

namespace tegula::codegen {

inline constexpr int kLanes = 32;

/// Which diagonals (column - row) the elements of a layout lie on that one warp holds: those from
/// what `warp` gives + first on, `count` of them.
struct WarpDiagonals {
  /// Nothing where a thread's place is not lane + warp + register.
  static std::optional<WarpDiagonals> of(const ir::LinearLayout& layout);
  /// What a lane computes, those behind the last diagonal included.
  std::int64_t registers() const { return (count + kLanes - 1) / kLanes; }

  /// One register, of all lanes, lies on diagonals that shuffles can give it: one of each lane.
  bool is_for_shuffles() const;
  std::int64_t of_register(int r) const { return columns.constant(r) - rows.constant(r); }

  ir::IndexFn rows, columns;
  std::int64_t first = 0, count = 0;
  /// What lanes add to `of_register`: from this on, so many.
  std::int64_t lane_first = 0, lane_count = 0;
};

/// Finds the values of a kernel in machine form that are worth it.
class DiagonalTiles {
 public:
  /// `has_memory`: else by shuffles.
  DiagonalTiles(const ir::Kernel& k, bool has_memory);

  /// The op's result is computed by diagonals.
  const WarpDiagonals* at(ir::OpId op) const;
  /// The op is computed as a part of those only.
  bool is_within(ir::OpId op) const { return within_.contains(op); }
  /// Shared memory that a warp needs; 0: there are none.
  std::int64_t bytes_per_warp() const;
  bool has_memory() const { return has_memory_; }

 private:
  void find(const ir::Kernel& k, ir::OpId op, const ir::Uses& uses, ir::Diagonals& diagonals);

  bool has_memory_;
  std::unordered_map<ir::OpId, WarpDiagonals> roots_;
  std::unordered_set<ir::OpId> within_;
};

}  // namespace tegula::codegen
