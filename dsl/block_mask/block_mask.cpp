// Which of the ways to find the blocks of a mask is taken, and why.
#include "tegula/block_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dsl/block_mask/derived_block_lists.h"
#include "dsl/block_mask/kv_range_analysis.h"
#include "dsl/signature.h"

namespace tegula {

BlockMask::BlockMask(const Mask& mask, bool in_order) : text_(derive(mask, in_order)) {}

std::string BlockMask::derive(const Mask& mask, bool in_order) {
  std::optional<MaskFunction> traced;
  try {
    traced = trace_mask_function(mask);
    depends_on_data_ = !traced->tables.empty();
  } catch (const std::exception& e) {
    // The mask wants tiles, or is wrong: the kernel's own use of it tells.
    depends_on_data_ = true;
    return fmt::format("all, the mask cannot be traced over scalars: {}", e.what());
  }
  ranges_ = std::make_shared<const KvRangeAnalysis>(*traced);
  const ir::MaskClosedForm& form = ranges_->form();
  const std::string why = fmt::format("class {}: {}", name(form.mask_class), form.reason);
  if (form.mask_class == ir::MaskClass::Data && !form.tells_blocks)
    return fmt::format("a range of what is solved, else all ({})", why);
  const ir::SolvedConditions& limits = ranges_->limits();
  is_up_to_row_ = limits.is_single_comparison();
  if (const auto parts = limits.intervals()) {
    has_parts_ = *parts > 1;
    return fmt::format("{}, no block tensors ({})",
                       *parts > 1 ? fmt::format("{} closed ranges", *parts) : "a closed range",
                       why);
  }
  if (in_order)
    return fmt::format("a range of what is solved, else all ({}; a list has no order)", why);
  derived_ = std::make_shared<const DerivedBlockLists>(*traced);
  return fmt::format("a block list derived from the mask ({})", why);
}

KvRanges BlockMask::record(const Tile& first, const Tile& last, const Tile& seqlen_kv) const {
  return ranges_ ? ranges_->record(first, last, seqlen_kv) : KvRanges{};
}

std::optional<BlockListArgs> BlockMask::lists(const Stream& stream, const Tensor& Q,
                                              const Tensor& K, const Tensor& V, const Tensor& O,
                                              BlockShape block, const QueryTileRows& rows) const {
  const bool is_wide = std::ranges::any_of(
      std::array{&Q, &K, &V, &O}, [](const Tensor* x) { return dsl::needs_wide_index(*x); });
  if (!derived_ || (is_wide && !derived_->holds_in_64_bits())) return std::nullopt;
  return derived_->make(stream, Q, K, block, rows);
}

std::string BlockMask::explain() const { return derived_ ? derived_->explain() : ""; }

}  // namespace tegula
