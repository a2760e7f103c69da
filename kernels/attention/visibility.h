#pragma once
// Which keys a tile of queries sees where no list says it.
#include "kernels/attention/query_rows.h"
#include "kernels/attention/visits.h"
#include "kernels/attention/way.h"
#include "tegula/kernels/attention.h"

namespace tegula {

/// By what the spec says, or else by what its mask computes. The spec and the way must outlive it.
class Visibility {
 public:
  Visibility(const AttentionSpec& spec, const Way& way) : spec_(spec), way_(way) {}
  Visits of(const Rows& rows, const Tile& length, int block) const;

 private:
  KvRanges seen(const Tile& first, const Tile& last, const Tile& length) const;

  const AttentionSpec& spec_;
  const Way& way_;
};

}  // namespace tegula
