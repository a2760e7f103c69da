#include "kernels/attention/table_reads.h"

#include <fmt/format.h>

#include "kernels/argument_error.h"
#include "kernels/attention/query_rows.h"
#include "tegula/called_from.h"

namespace tegula::kernels {
namespace {

constexpr int kRows = 64, kKeys = 64;

/// Records the checks of a block of queries and keys.
void check_block(const AttentionSpec& spec, const SequenceRange& sequence, const Tile& seqlen_q,
                 const Index& b, const Index& h, const Index& m, const Index& n) {
  QueryRows rows = QueryRows::of_head(h, m, seqlen_q);
  const Tile length = sequence.seqlen_kv, columns = expand(n, 0);
  Tile visible = rows.positions < seqlen_q && columns < length;
  if (spec.align_bottom_right) rows = rows.shifted(length - seqlen_q);
  const auto is_in = [&](const KvRange& keys) { return columns >= keys.lo && columns < keys.hi; };
  if (spec.kv_range) visible = visible && is_in(spec.kv_range(rows.first, rows.last, length));
  if (spec.mask) {
    Tile kept = spec.mask(b, rows.heads, rows.positions, columns);
    if (spec.full_kv_range) kept = is_in(spec.full_kv_range(rows.first, rows.last, length)) || kept;
    visible = visible && kept;
    require_inside_reads(visible);
  }
  if (!spec.score) return;
  const Tile score = spec.score(full<f32>(0, kRows, kKeys), b, rows.heads, rows.positions, columns);
  require_inside_reads(visible && cast<f32>(score) < 0.0f);
}

auto make_kernel(std::shared_ptr<const AttentionHeuristics> facts) {
  return kernel("attention_tables",
                [facts](Scalar<i32> batch, Scalar<i32> heads, Scalar<i32> queries, Scalar<i32> keys,
                        std::optional<In<i32, 1>> cu_q, std::optional<In<i32, 1>> cu_kv) {
                  for (auto [b, h, tile] : grid({batch, heads, cdiv(queries, kRows)}, 1, 1, 1)) {
                    const SequenceRange sequence =
                        cu_q ? SequenceRange::packed(*cu_q, *cu_kv, b) : SequenceRange{b, keys};
                    const Tile seqlen_q = sequence.seqlen_q(queries);
                    const Index m = slice(tile.first() * kRows, kRows);
                    for (auto n : steps(sequence.seqlen_kv, kKeys))
                      check_block(facts->spec, sequence, seqlen_q, b, h, m, n);
                  }
                });
}

}  // namespace

AttentionTables::AttentionTables(std::shared_ptr<const AttentionHeuristics> of)
    : facts_(std::move(of)) {
  const AttentionSpec& spec = facts_->spec;
  if (spec.mask)
    mask_.emplace([&spec](const Tile&, const Tile& b, const Tile& h, const Tile& q,
                          const Tile& kv) { return where(spec.mask(b, h, q, kv), 1.0f, 0.0f); });
  if (spec.score) score_.emplace(spec.score);
  const bool reads = (mask_ && mask_->any()) || (score_ && score_->any());
  if (reads && !spec.blocks) kernel_.emplace(make_kernel(facts_));
}

void AttentionTables::check(const Tensor& Q, const Tensor& K, const CuSeqlens& lengths) const {
  const bool is_varlen = lengths.q.defined();
  if (!kernel_ && !spec().blocks) return;
  const bool has_ranks = Q.rank() == (is_varlen ? 3 : 4) && K.rank() == Q.rank() &&
                         (!is_varlen || lengths.q.rank() == 1);
  if (!has_ranks) return;  // reported later
  const std::int64_t batch = is_varlen ? lengths.q.size(0) - 1 : Q.size(0), heads = Q.size(1),
                     queries = Q.size(2), keys = K.size(2);
  const bool has_pairs = batch > 0 && queries > 0 && keys > 0;
  const bool visits_all = !is_varlen && !spec().blocks && !spec().kv_range && !spec().full_kv_range;
  if (!has_pairs) return;
  each([&](const TableReads& reads, const char* function) {
    check(reads, function, Argument::batch, is_varlen ? "sequences" : "batch entries", batch);
    check(reads, function, Argument::head, "heads", heads);
    if (!visits_all) return;
    check(reads, function, Argument::query, "positions of queries",
          spec().align_bottom_right ? keys : queries);
    check(reads, function, Argument::key, "positions of keys", keys);
  });
}

void AttentionTables::check_paged(std::int64_t requests, std::int64_t heads) const {
  each([&](const TableReads& reads, const char* function) {
    check(reads, function, Argument::batch, "requests", requests);
    check(reads, function, Argument::head, "heads", heads);
  });
}

void AttentionTables::check(const TableReads& reads, const char* function, Argument argument,
                            const char* name, std::int64_t count) const {
  for (const TableReads::ByArgument& r : reads.by_argument()) {
    if (r.argument != argument || r.table->rank() <= r.axis) continue;
    const std::int64_t entries = r.table->size(r.axis);
    if (entries >= count) continue;
    const std::string place =
        tegula::detail::is_of_call(r.at) ? "" : fmt::format(" at {}:{}", r.at.file, r.at.line);
    throw_argument_error(ErrorId::table_extent,
                         fmt::format("the tensor that the {} reads{}", function, place), entries,
                         r.axis, name, count);
  }
}

void AttentionTables::add_checks(PlanBuilder& plan, const AttentionCall& c, PlanSlot cu_q,
                                 PlanSlot cu_kv) const {
  if (!kernel_ || c.Q.device().kind == DeviceKind::cuda || c.K.size(2) == 0) return;
  const auto depends_on = [&](Argument a) {
    return (mask_ && mask_->depends_on(a)) || (score_ && score_->depends_on(a));
  };
  const bool is_varlen = c.lengths.q.defined();
  const std::int64_t entries = is_varlen ? c.lengths.q.size(0) - 1 : c.Q.size(0);
  const auto batch = is_varlen || depends_on(Argument::batch) ? entries : 1,
             heads = depends_on(Argument::head) ? c.Q.size(1) : 1,
             queries = is_varlen ? c.lengths.max_seqlen_q : c.Q.size(2);
  if (entries == 0) return;
  plan.launch(*kernel_, static_cast<i32>(batch), static_cast<i32>(heads), static_cast<i32>(queries),
              static_cast<i32>(c.K.size(2)), cu_q, cu_kv);
}

}  // namespace tegula::kernels
