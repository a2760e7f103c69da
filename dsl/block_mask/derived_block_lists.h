#pragma once
// Block lists made on the device from what a mask computes.
#include <memory>
#include <string>

#include "dsl/functions/traced_function.h"
#include "tegula/block_mask.h"
#include "tegula/stream.h"

namespace tegula {

class DerivedBlockLists {
 public:
  explicit DerivedBlockLists(const MaskFunction& source);
  ~DerivedBlockLists();

  /// Whether the lists hold for positions computed in 64 bits too.
  bool holds_in_64_bits() const;

  /// Launches what makes the lists of attention from `Q` to `K` ([batch, heads, rows, head_dim]),
  /// in the stream's workspace (scratch.h). Those of many sequences are by sequence, in columns of
  /// their own.
  BlockListArgs make(const Stream& stream, const Tensor& Q, const Tensor& K, BlockShape tiles,
                     const QueryTileRows& rows) const;
  /// Report, as Kernel::explain() gives it, on the kernels that make lists.
  std::string explain() const;

 private:
  struct Kernels;
  std::unique_ptr<Kernels> of_head_, of_group_;  ///< by whether heads are rows of a tile
};

}  // namespace tegula
