// Chooses how attention finds the blocks of a mask that it visits, and states the reasons.
#include "tegula/block_mask.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/block_mask/block_coverage.h"
#include "dsl/block_mask/derived_block_lists.h"
#include "dsl/block_mask/kv_range_analysis.h"
#include "dsl/signature.h"

namespace tegula {

namespace {

/// A mask traced over scalars, or the reason why this failed: the mask requires tiles, or contains
/// an error, which is reported when a kernel uses the mask.
struct TracedAlone {
  std::optional<MaskFunction> function;
  std::string error;

  explicit TracedAlone(const Mask& mask) {
    try {
      function = trace_mask_function(mask);
    } catch (const std::exception& e) {
      error = e.what();
    }
  }
};

bool has_wide_index(std::initializer_list<const Tensor*> tensors) {
  return std::ranges::any_of(tensors, [](const Tensor* x) { return dsl::needs_wide_index(*x); });
}

}  // namespace

MaskDependence MaskDependence::of(const Mask& mask) {
  const TracedAlone traced(mask);
  return traced.function ? mask_dependence(*traced.function->owner) : MaskDependence();
}

BlockMask::BlockMask(const Mask& mask, bool in_order) : mask_(mask), text_(derive(in_order)) {}

std::string BlockMask::derive(bool in_order) {
  const TracedAlone traced(mask_);
  depends_on_data_ = !traced.function || !traced.function->tables.empty();
  if (traced.function) dependence_ = mask_dependence(*traced.function->owner);
  evaluated_ = std::make_shared<const DerivedBlockLists>(EvaluatedMask{mask_, dependence_});
  if (!traced.function)
    return fmt::format("all, the mask cannot be traced over scalars: {}", traced.error);
  const KvRangeAnalysis ranges(*traced.function);
  const ir::MaskClosedForm& form = ranges.form();
  const std::string why = fmt::format("class {}: {}", name(form.mask_class), form.reason);
  is_unsolved_ = form.mask_class == ir::MaskClass::Data && !form.tells_blocks && !in_order;
  if (form.mask_class == ir::MaskClass::Data && !form.tells_blocks)
    return fmt::format("a range by the solved conditions, else all ({})", why);
  const ir::SolvedConditions& limits = ranges.limits();
  is_up_to_row_ = limits.is_single_comparison();
  if (const auto parts = limits.intervals()) {
    has_parts_ = *parts > 1;
    return fmt::format("{}, no block tensors ({})",
                       *parts > 1 ? fmt::format("{} closed ranges", *parts) : "a closed range",
                       why);
  }
  if (in_order)
    return fmt::format("a range by the solved conditions, else all ({}; a list has no order)", why);
  derived_ = std::make_shared<const DerivedBlockLists>(*traced.function);
  return fmt::format("a block list derived from the mask ({})", why);
}

KvRanges BlockMask::record(const Tile& first, const Tile& last, const Tile& seqlen_kv) const {
  // Values that the mask captured by reference may have changed since it was made; the kernel that
  // is being traced uses the current ones.
  const TracedAlone now(mask_);
  return now.function ? KvRangeAnalysis(*now.function).record(first, last, seqlen_kv) : KvRanges{};
}

const DerivedBlockLists* BlockMask::lists_for(bool is_wide) const {
  const DerivedBlockLists* lists = is_unsolved_ ? evaluated_.get() : derived_.get();
  return lists && (!is_wide || lists->holds_in_64_bits()) ? lists : nullptr;
}

std::optional<BlockListArgs> BlockMask::lists(const Stream& stream, const Tensor& Q,
                                              const Tensor& K, const Tensor& V, const Tensor& O,
                                              BlockShape block, const QueryTileRows& rows) const {
  const bool is_wide = has_wide_index({&Q, &K, &V, &O});
  const DerivedBlockLists* lists = lists_for(is_wide);
  if (!lists) return std::nullopt;
  return lists->make(stream, Q, K, block, rows, is_wide);
}

std::optional<BlockListSlots> BlockMask::lists(PlanBuilder& plan, const Tensor& Q, const Tensor& K,
                                               const Tensor& V, const Tensor& O, BlockShape block,
                                               const QueryTileRows& rows, PlanSlot cu_q,
                                               PlanSlot cu_kv) const {
  const bool is_wide = has_wide_index({&Q, &K, &V, &O});
  const DerivedBlockLists* lists = lists_for(is_wide);
  if (!lists) return std::nullopt;
  return lists->make(plan, Q, K, block, rows, cu_q, cu_kv, is_wide);
}

void BlockMask::evaluate(PlanBuilder& plan, const Tensor& Q, const Tensor& K, BlockShape block,
                         bool align_bottom_right, bool is_transposed,
                         const BlockListSlots& lists) const {
  const BlockShape tiles = is_transposed ? BlockShape{block.block_kv, block.block_q} : block;
  evaluated_->write(plan, is_transposed ? K : Q, is_transposed ? Q : K,
                    {tiles, align_bottom_right, is_transposed}, lists);
}

std::string BlockMask::explain() const {
  return (derived_ ? derived_->explain() : "") + evaluated_->explain();
}

}  // namespace tegula
