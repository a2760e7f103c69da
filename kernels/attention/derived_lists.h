#pragma once
// Block lists made on the device from what a mask computes.
#include <memory>
#include <string>

#include "kernels/attention/block_sizes.h"
#include "kernels/attention/list_args.h"
#include "kernels/attention/mask_intervals.h"
#include "kernels/attention/visits.h"
#include "tegula/stream.h"

namespace tegula {

class DerivedLists {
 public:
  explicit DerivedLists(const MaskSource& source);
  ~DerivedLists();

  /// Whether the lists hold for positions computed in 64 bits too.
  bool holds_in_64_bits() const;

  /// Launches what makes the lists of attention from `Q` to `K` ([batch, heads, length,
  /// head_dim]), in the stream's workspace.
  ListArgs make(const Stream& stream, const Tensor& Q, const Tensor& K, AttentionTiles tiles) const;
  /// As of a kernel, for the kernels that make lists.
  std::string explain() const;

 private:
  struct Kernels;
  std::unique_ptr<Kernels> kernels_;
};

}  // namespace tegula
