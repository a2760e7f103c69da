#pragma once
// Tiles that are functions of column - row (ir/analysis/toeplitz.h). A warp's part of such a tile
// has few diagonals: each lane computes some of them, and the lanes of the warp exchange their
// results, so that no warp waits for another: through shared memory of the warp's own, or by
// shuffles if there is no room.
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/analysis/toeplitz.h"
#include "ir/layout/thread_fn.h"
#include "ir/uses.h"

namespace tegula::codegen {

inline constexpr int kLanes = 32;

/// Diagonals (column - row) on which the elements of a layout lie that one warp holds: `count` of
/// them, from the value of `warp` plus first on.
struct WarpToeplitz {
  /// Nothing where a thread's place is not lane + warp + register.
  static std::optional<WarpToeplitz> of(const ir::LinearLayout& layout);
  /// Diagonals that a lane computes, including those beyond the last one.
  std::int64_t registers() const { return (count + kLanes - 1) / kLanes; }

  /// Whether shuffles can give each register its diagonals: one of each lane.
  bool is_for_shuffles() const;
  std::int64_t of_register(int r) const { return columns.constant(r) - rows.constant(r); }

  ir::IndexFn rows, columns;
  std::int64_t first = 0, count = 0;
  /// Range of the lanes' offsets that are added to `of_register`.
  std::int64_t lane_first = 0, lane_count = 0;
};

/// Finds the values of a kernel in machine form that are worth it.
class ToeplitzTiles {
 public:
  /// `has_memory`: else by shuffles.
  ToeplitzTiles(const ir::Kernel& k, bool has_memory);

  /// The op's result is computed by diagonals.
  const WarpToeplitz* at(ir::OpId op) const;
  /// Whether the op is computed as a part of those only.
  bool is_within(ir::OpId op) const { return within_.contains(op); }
  /// Shared memory that a warp needs; 0: there are none.
  std::int64_t bytes_per_warp() const;
  bool has_memory() const { return has_memory_; }

 private:
  void find(const ir::Kernel& k, ir::OpId op, const ir::Uses& uses,
            ir::ToeplitzAnalysis& diagonals);

  bool has_memory_;
  std::unordered_map<ir::OpId, WarpToeplitz> roots_;
  std::unordered_set<ir::OpId> within_;
};

}  // namespace tegula::codegen
