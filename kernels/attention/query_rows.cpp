#include "kernels/attention/query_rows.h"

#include "tegula/attention_tiles.h"

namespace tegula::kernels {

bool can_gather_queries(std::int64_t dim, std::int64_t head_dim_v) {
  constexpr int kMaxRegisters = 112;
  const int of_queries = padded_head_dim(static_cast<int>(dim)) / 4,
            of_results = padded_head_dim(static_cast<int>(head_dim_v)) / 2;
  return of_queries + of_results <= kMaxRegisters;
}

SequenceRange SequenceRange::packed(const In<i32, 1>& cu_q, const In<i32, 1>& cu_kv,
                                    const Tile& b) {
  const Tile next = b + 1, kv_first = fill_absent(cu_kv(b), 0);
  return {.entry = Index(Tile(0), 1),
          .seqlen_kv = fill_absent(cu_kv(next), 0) - kv_first,
          .q_first = fill_absent(cu_q(b), 0),
          .q_end = fill_absent(cu_q(next), 0),
          .kv_first = kv_first};
}

SequenceRange SequenceRange::request(const In<i32, 1>& q_offsets, const Tile& seqlen_kv,
                                     const Tile& b) {
  const Tile next = b + 1, first = fill_absent(q_offsets(b), 0),
             end = fill_absent(q_offsets(next), 0);
  tegula::detail::report_unless(end - first <= seqlen_kv, "request",
                                "a request has more queries than keys", {});
  tegula::detail::report_unless(first <= end, "request", "q_offsets descend", {});
  return {.entry = Index(Tile(0), 1), .seqlen_kv = seqlen_kv, .q_first = first, .q_end = end};
}

SequenceRange SequenceRange::with_few_queries(int few, bool has_few) const {
  const Tile queries = *q_end - *q_first;
  SequenceRange kept = *this;
  kept.q_end = where(has_few ? queries <= few : queries > few, *q_end, *q_first);
  return kept;
}

SequenceRange SequenceRange::with_heads_as_rows(const Tile& group, const Tile& max_seqlen_q,
                                                bool is_one_query) const {
  const Tile queries = *q_end - *q_first;
  tegula::detail::report_unless(queries <= max_seqlen_q, "request",
                                "a request has more queries than max_seqlen_q", {});
  const QueryHeadRows by_head{*q_first, queries, cast<i32>(group), is_one_query};
  return {.entry = entry,
          .seqlen_kv = seqlen_kv,
          .q_first = full<i32>(0),
          .q_end = by_head.count(),
          .kv_first = kv_first,
          .by_head = by_head};
}

RowSubscripts SequenceRange::rows(const Index& m) const {
  if (!by_head) return {entry, queries(m)};
  if (by_head->is_one_query) return {slice(by_head->first_query, 1), m};
  const Tile r = m.indices(), query = by_head->first_query + r / by_head->group;
  return {where(r < by_head->count(), query, -1), r % by_head->group};
}

std::optional<Tile> SequenceRange::has_queries(const Index& m) const {
  if (!q_first) return std::nullopt;
  return queries(m).first() < *q_end;
}

Tile SequenceRange::mask_tail(const Tile& results, const Index& m) const {
  const bool is_box = q_first && (!by_head || by_head->is_one_query);
  return is_box ? crop(results, 0, queries(m).first(), *q_end) : results;
}

std::pair<Index, Index> VarlenTileScheduler::at(const Tile& number) const {
  // Binary search for the last sequence whose first tile has this number or a smaller one.
  const Tile sequences = this->sequences();
  Tile found = full<i32>(0);
  for (int step = kMaxSequences / 2; step > 0; step /= 2) {
    const Tile next = found + step, begin = fill_absent(cu_q_(next), 0);
    found = where(next < sequences && first_of(next, begin) <= number, next, found);
  }
  // The difference is never negative. The ring checker does not evaluate memory and cannot know
  // this; max() gives it a valid tile.
  const Tile tile = max(number - first_of(found, fill_absent(cu_q_(found), 0)), 0);
  assume(found >= 0), assume(found < sequences);
  return {Index(found, 1), slice(tile * rows_, rows_)};
}

QueryRows QueryRows::of_head(const Index& h, const Index& m, const Tile& seqlen_q) {
  const Tile first = m.first();
  return {h, expand(m, 1), first, min(first + m.block(), seqlen_q) - 1, h};
}

QueryRows QueryRows::shifted(const Tile& by) const {
  return {heads, positions + by, first + by, last + by, head_of_row};
}

QueryRows QueryRows::with_keys_in_m() const {
  const auto as_row = [](const Tile& t) { return t.rank() == 2 ? t.T() : t; };
  return {as_row(heads), as_row(positions), first, last, head_of_row};
}

QueryRows QueryRows::of_group(const Index& group, const Index& m, const Tile& rows,
                              const Tile& seqlen_q) {
  const Tile r = m.indices(), head = group * (rows / seqlen_q) + r / seqlen_q;
  return {expand(head, 1), expand(r % seqlen_q, 1), full<i32>(0), seqlen_q - 1, head};
}

QueryRows QueryRows::of_queries(const Index& group, const Index& m, const QueryHeadRows& rows) {
  const Tile r = m.indices(), head = group * rows.group + r % rows.group,
             last = min(m.first() + m.block(), rows.count()) - 1;
  return {expand(head, 1), expand(r / rows.group, 1), m.first() / rows.group, last / rows.group,
          head};
}

}  // namespace tegula::kernels
