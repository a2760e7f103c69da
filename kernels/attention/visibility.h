#pragma once
// Which keys a tile of queries sees where no list says it.
#include <optional>

#include "kernels/attention/query_rows.h"
#include "kernels/attention/visits.h"
#include "tegula/block_mask.h"
#include "tegula/kernels/attention.h"

namespace tegula {

/// By what the spec says, or else by what its mask computes. Of one trace: what the mask captured
/// may change; the spec must outlive it.
class Visibility {
 public:
  explicit Visibility(const AttentionSpec& spec);
  Visits of(const Rows& rows, const Tile& length, int block) const;

 private:
  MaskedKeys seen(const Tile& first, const Tile& last, const Tile& length) const;

  const AttentionSpec& spec_;
  std::optional<MaskBounds> derived_;
};

}  // namespace tegula
