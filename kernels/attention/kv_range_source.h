#pragma once
// Source of the kv range of a query tile if no list gives it.
#include <optional>

#include "kernels/attention/kv_block_iterator.h"
#include "kernels/attention/query_rows.h"
#include "tegula/block_mask.h"
#include "tegula/kernels/attention.h"

namespace tegula {

/// By what the spec says, or else by what its mask computes. Of one trace: what the mask captured
/// may change; the spec must outlive it.
class KvRangeSource {
 public:
  explicit KvRangeSource(const AttentionSpec& spec);
  KvBlockIterator of(const QueryRows& rows, const Tile& length, int block) const;

 private:
  KvRanges seen(const Tile& first, const Tile& last, const Tile& length) const;

  const AttentionSpec& spec_;
  std::optional<KvRangeAnalysis> derived_;
};

}  // namespace tegula
