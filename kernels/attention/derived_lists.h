#pragma once
// Block lists made on the device from what a mask computes.
#include <memory>
#include <string>

#include "kernels/attention/block_sizes.h"
#include "kernels/attention/list_args.h"
#include "kernels/attention/mask_intervals.h"
#include "kernels/attention/visits.h"
#include "tegula/kernels/attention.h"
#include "tegula/stream.h"

namespace tegula {

/// What the rows of a call's tiles of queries are.
struct ListRows {
  int group = 1;        ///< heads whose queries are one head's rows, one head behind the other
  bool at_end = false;  ///< the last query stands at the last key
  bool longest_first = false;  ///< whether an order of the tiles is wanted
  CuSeqlens lengths = {};  ///< of sequences one behind the other; undefined tensors: there are none
};

class DerivedLists {
 public:
  explicit DerivedLists(const MaskSource& source);
  ~DerivedLists();

  /// Whether the lists hold for positions computed in 64 bits too.
  bool holds_in_64_bits() const;

  /// Launches what makes the lists of attention from `Q` to `K` ([batch, heads, rows, head_dim]),
  /// in the stream's workspace (scratch.h). Those of many sequences are by sequence, in columns of
  /// their own.
  ListArgs make(const Stream& stream, const Tensor& Q, const Tensor& K, AttentionTiles tiles,
                const ListRows& rows) const;
  /// As of a kernel, for the kernels that make lists.
  std::string explain() const;

 private:
  struct Kernels;
  std::unique_ptr<Kernels> of_head_, of_group_;  ///< by whether heads are rows of a tile
};

}  // namespace tegula
