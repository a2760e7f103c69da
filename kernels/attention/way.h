#pragma once
// Which of the ways through the keys attention takes under a mask, and why.
#include <optional>
#include <string>

#include "kernels/attention/block_sizes.h"
#include "kernels/attention/query_rows.h"
#include "kernels/attention/visits.h"
#include "tegula/block_mask.h"
#include "tegula/kernels/attention.h"

namespace tegula {

/// [batch, heads, length, head_dim] each.
struct AttentionTensors {
  const Tensor &Q, &K, &V, &O;
};

class Way {
 public:
  explicit Way(const AttentionSpec& spec);

  /// True if the kernel runs over block lists.
  bool is_listed() const { return list_ || (derived_ && derived_->is_listed()); }
  /// True if the blocks of a tile do not follow each other.
  bool has_gaps() const { return is_listed() || (derived_ && derived_->has_parts()); }
  KeyReach reach() const { return reach_; }
  /// True if tensors, the caller, or what cannot be traced, say what a row sees: not in the first
  /// block, maybe.
  bool depends_on_data() const { return depends_on_data_; }
  /// The blocks that a tile of queries visits where no list says it, in the kernel that is being
  /// traced.
  Visits visits(const Rows& rows, const Tile& length, int block) const;
  /// The lists for a call, made on its stream where they are derived; nothing if it runs over a
  /// range of keys.
  std::optional<ListArgs> lists(const Stream& stream, const AttentionTensors& tensors,
                                const AttentionTiles& tiles, const ListRows& rows) const;
  /// One line: the way and the reason.
  const std::string& text() const { return text_; }
  /// As of a kernel, of what makes the lists.
  std::string explain() const { return derived_ ? derived_->explain() : ""; }

 private:
  std::optional<BlockList> list_;
  decltype(AttentionSpec::range) range_;
  decltype(AttentionSpec::full) full_;
  std::optional<BlockMask> derived_;
  bool depends_on_data_ = false;
  KeyReach reach_ = KeyReach::unknown;
  std::string text_;
};

}  // namespace tegula
