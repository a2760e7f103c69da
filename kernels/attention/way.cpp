#include "kernels/attention/way.h"

#include "kernels/attention/list_args.h"
#include "tegula/tegula.h"

namespace tegula {

Way::Way(const AttentionSpec& spec) : list_(spec.blocks), range_(spec.range), full_(spec.full) {
  if (list_) {
    text_ = "a block list of the caller";
  } else if (spec.range || spec.full) {
    text_ = "a range of the caller", depends_on_data_ = true;
  } else if (spec.mask) {
    derived_.emplace(spec.mask, spec.weighting == Weighting::stick_breaking);
    text_ = derived_->text(), depends_on_data_ = derived_->depends_on_data();
    if (derived_->is_up_to_row()) reach_ = KeyReach::up_to_row;
  } else {
    text_ = "all, there is no mask", reach_ = KeyReach::all;
  }
}

Visits Way::visits(const Rows& rows, const Tile& length, int block) const {
  KvRanges keys;
  if (derived_) keys = derived_->record(rows.first, rows.last, length);
  if (range_) keys.visible = range_(rows.first, rows.last, length);
  if (range_) keys.visible->lo = max(keys.visible->lo, 0);
  if (full_) keys.full = full_(rows.first, rows.last, length);
  return Visits::range(keys, length, block);
}

std::optional<ListArgs> Way::lists(const Stream& stream, const AttentionTensors& t,
                                   const AttentionTiles& tiles, const ListRows& rows) const {
  if (list_) return list_args(*list_, t.Q);
  if (!derived_) return std::nullopt;
  return derived_->lists(stream, t.Q, t.K, t.V, t.O, {tiles.queries, tiles.keys}, rows);
}

}  // namespace tegula
