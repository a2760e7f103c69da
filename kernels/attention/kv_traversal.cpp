#include "kernels/attention/kv_traversal.h"

#include <functional>
#include <numeric>

#include "kernels/attention/list_args.h"
#include "tegula/tegula.h"

namespace tegula::kernels {

int rows_of_page_boxes(std::int64_t page_rows, int block_kv) {
  constexpr std::int64_t kMultiple = 16;  // as ir/analysis/page_boxes.cpp requires
  const auto rows = std::gcd(page_rows, std::int64_t{block_kv});
  return rows % kMultiple == 0 ? static_cast<int>(rows) : 1;
}

KvTraversal::KvTraversal(const AttentionSpec& spec)
    : list_(spec.blocks), range_(spec.kv_range), full_(spec.full_kv_range) {
  if (list_) {
    text_ = "a block list of the caller";
    if (spec.mask) listed_ = MaskDependence::of(spec.mask);
  } else if (spec.kv_range || spec.full_kv_range) {
    text_ = "a range of the caller", depends_on_data_ = true;
  } else if (spec.mask) {
    derived_.emplace(spec.mask, spec.weighting == AttentionNormalization::stick_breaking);
    text_ = derived_->text(), depends_on_data_ = derived_->is_data_dependent();
    if (derived_->is_unsolved()) listed_ = derived_->dependence();
    if (derived_->is_up_to_row()) kv_extent_ = KvExtent::causal;
  } else {
    text_ = "all, there is no mask", kv_extent_ = KvExtent::full;
  }
}

KvBlockIterator KvTraversal::kv_blocks(const QueryRows& rows, const Tile& length, int block,
                                       int first_key_divisor) const {
  KvRanges keys;
  if (derived_) {
    keys = derived_->record(rows.first, rows.last, length);
    const auto round = [&](const KvRange& range) {
      return KvRange{range.lo / first_key_divisor * first_key_divisor, range.hi};
    };
    if (first_key_divisor > 1) replace_ranges(keys, round, std::identity{});
  }
  if (range_) keys.visible = range_(rows.first, rows.last, length);
  if (range_) keys.visible->lo = max(keys.visible->lo, 0);
  if (full_) keys.full = full_(rows.first, rows.last, length);
  // Keys beyond a given range are masked as those beyond the sequence are.
  return KvBlockIterator::range(keys, range_ ? min(keys.visible->hi, length) : length, block);
}

std::optional<BlockListArgs> KvTraversal::lists(const Stream& stream, const AttentionTensors& t,
                                                const AttentionTileShape& tiles,
                                                const QueryTileRows& rows) const {
  if (list_) return list_args(*list_, listed_rows(*list_, t.Q, rows.lengths));
  if (!derived_) return std::nullopt;
  return derived_->lists(stream, t.Q, t.K, t.V, t.O, {tiles.block_q, tiles.block_kv}, rows);
}

std::optional<BlockListSlots> KvTraversal::lists(PlanBuilder& plan, const AttentionSlots& slots,
                                                 const AttentionTensors& t,
                                                 const AttentionTileShape& tiles,
                                                 const QueryTileRows& rows) const {
  if (list_) return list_slots(plan, *list_, listed_rows(*list_, t.Q, rows.lengths), slots.list);
  if (!derived_) return std::nullopt;
  return derived_->lists(plan, t.Q, t.K, t.V, t.O, {tiles.block_q, tiles.block_kv}, rows,
                         slots.cu_q, slots.cu_kv);
}

}  // namespace tegula::kernels
