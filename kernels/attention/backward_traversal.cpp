#include "kernels/attention/backward_traversal.h"

#include "tegula/tegula.h"

namespace tegula::kernels {

BackwardTraversal::BackwardTraversal(const AttentionSpec& spec, BlockListRows rows)
    : rows_are_queries_(rows == BlockListRows::queries) {
  if (!spec.mask) return;
  mask_.emplace([mask = spec.mask, is_same = rows_are_queries_](
                    const Tile& b, const Tile& h, const Tile& row, const Tile& column) {
    return is_same ? mask(b, h, row, column) : mask(b, h, column, row);
  });
}

KvBlockIterator BackwardTraversal::blocks(const Tile& first, const Tile& last, const Tile& length,
                                          const Tile& shift, int block) const {
  const Tile none = tegula::full<i32>(0), of_rows = rows_are_queries_ ? shift : none,
             of_columns = rows_are_queries_ ? none : shift;
  KvRanges columns;
  if (mask_) columns = mask_->record(first + of_rows, last + of_rows, length + of_columns);
  const auto aligned = [&](const KvRange& r) {
    return KvRange{max(r.lo - of_columns, 0) / block * block, r.hi - of_columns};
  };
  if (columns.visible) columns.visible = aligned(*columns.visible);
  for (KvRange& r : columns.visible_intervals) r = aligned(r);
  const auto shifted = [&](const KvRange& r) {
    return KvRange{r.lo - of_columns, r.hi - of_columns};
  };
  if (columns.full) columns.full = shifted(*columns.full);
  for (KvRange& r : columns.full_intervals) r = shifted(r);
  return KvBlockIterator::range(columns, length, block);
}

std::optional<BlockListSlots> BackwardTraversal::lists(PlanBuilder& plan, const Tensor& rows,
                                                       const Tensor& columns, BlockShape block,
                                                       const CuSeqlens& lengths,
                                                       PlanSlot starts_of_rows,
                                                       PlanSlot starts_of_columns) const {
  if (!mask_) return std::nullopt;
  return mask_->lists(plan, rows, columns, columns, rows, block, {.lengths = lengths},
                      starts_of_rows, starts_of_columns);
}

}  // namespace tegula::kernels
