#pragma once
// Block lists that kernels compute on the device from the values of a mask: from bounds over blocks
// of its parts that depend on one axis, or from all of its values.
#include <memory>
#include <string>

#include "dsl/functions/traced_function.h"
#include "tegula/block_mask.h"
#include "tegula/stream.h"

namespace tegula {

struct EvaluatedMask;

/// The lists that `write` makes: rows are blocks of `tiles.block_q` rows.
struct EvaluatedLists {
  BlockShape tiles;
  bool align_bottom_right, is_transposed;
};

class DerivedBlockLists {
 public:
  /// Derives the lists from bounds of the mask's values over blocks.
  explicit DerivedBlockLists(const MaskFunction& source);
  /// Derives the lists from all values of the mask, for unpacked heads.
  explicit DerivedBlockLists(const EvaluatedMask& mask);
  ~DerivedBlockLists();

  /// Returns true if the lists are also valid for positions computed in 64 bits (`is_wide`).
  bool holds_in_64_bits() const;

  /// Launches the kernels that make the lists for attention from `Q` to `K` ([batch, heads, rows,
  /// head_dim]), in the stream's workspace (scratch.h). With several sequences there is one list
  /// per sequence, in separate columns.
  BlockListArgs make(const Stream& stream, const Tensor& Q, const Tensor& K, BlockShape tiles,
                     const QueryTileRows& rows, bool is_wide = false) const;
  /// Does the same as launches of a plan; `cu_q` and `cu_kv` are the slots of `rows.lengths`.
  BlockListSlots make(PlanBuilder& plan, const Tensor& Q, const Tensor& K, BlockShape tiles,
                      const QueryTileRows& rows, PlanSlot cu_q, PlanSlot cu_kv, bool is_wide) const;
  /// Adds the launches that write lists from all values to `lists`, in the caller's format. `Q` has
  /// the rows, `K` the columns.
  void write(PlanBuilder& plan, const Tensor& Q, const Tensor& K, const EvaluatedLists& how,
             const BlockListSlots& lists) const;
  /// Returns a report, like Kernel::explain(), on the kernels that make lists.
  std::string explain() const;

 private:
  struct Kernels;
  template <class Memory>
  typename Memory::Lists made_in(Memory& memory, const Tensor& Q, const Tensor& K, BlockShape tiles,
                                 const QueryTileRows& rows, const typename Memory::Place& cu_q,
                                 const typename Memory::Place& cu_kv, bool is_wide) const;
  std::unique_ptr<Kernels> of_head_, of_group_;  ///< for unpacked heads; for packed GQA heads
};

}  // namespace tegula
