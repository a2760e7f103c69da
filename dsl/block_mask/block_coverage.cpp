#include "dsl/block_mask/block_coverage.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "dsl/block_mask/sequence_lists.h"
#include "ir/analysis/index_facts.h"
#include "ir/uses.h"

namespace tegula {
namespace {

/// Pairs that a program evaluates at a time: few enough for the registers of its threads.
constexpr int kPairsAtOnce = 2048;

/// Returns the largest n such that `v`, if it is not negative, is only used as v / n; 0 if it is
/// not used.
int step_of(const ir::Kernel& k, const ir::Uses& uses, ir::Value v) {
  std::int64_t step = 0;
  for (const ir::Uses::Use& use : uses.of(v)) {
    const ir::OpData& d = k[use.op];
    std::int64_t n = 1;
    if (d.opcode == ir::Opcode::Cast &&
        ir::holds_all_of(k.type(d.results[0]).dtype(), k.type(v).dtype()))
      n = step_of(k, uses, d.results[0]);
    else if (d.opcode == ir::Opcode::Div && use.operand == 0)
      n = std::max<std::int64_t>(ir::constant_value(k, d.operands[1]).value_or(1), 1);
    else if (d.opcode == ir::Opcode::Shr && use.operand == 0)
      n = std::int64_t{1} << std::clamp<std::int64_t>(
              ir::constant_value(k, d.operands[1]).value_or(0), 0, 30);
    step = std::gcd(step, n);
  }
  return static_cast<int>(std::min<std::int64_t>(step, 1 << 30));
}

/// Positions at which a block of one axis is evaluated: one for each run of `step` positions.
struct BlockPositions {
  int block, step;
  Tile first, count;  ///< the first position of the block, and the length of the axis

  BlockPositions(int extent, int steps, const Tile& begin, const Tile& length)
      : block(extent), step(std::gcd(extent, steps)), first(begin), count(length) {}

  int lanes() const { return block / step; }
  /// Returns `n` positions from lane `at` on. Those beyond the last position repeat it.
  Tile of(const Tile& at, int n) const {
    return min(first + (at + arange(n)) * step, max(count - 1, 0));
  }
};

/// Evaluates blocks of one batch entry and head.
struct BlockEvaluation {
  const EvaluatedMask& source;
  Tile b, h;
  bool is_transposed, is_wide;
  std::optional<Tile> query_shift;

  Tile kept(Tile q, const Tile& kv) const {
    if (query_shift) q = q + *query_shift;
    const auto in_width = [&](const Tile& t) { return is_wide ? cast<i64>(t) : cast<i32>(t); };
    return source.mask(in_width(b), in_width(h), in_width(q), in_width(kv));
  }

  /// Returns the coverage of a block.
  Tile run(const BlockPositions& rows, const BlockPositions& columns) const {
    const int width = columns.lanes();
    const auto most = std::bit_floor(static_cast<unsigned>(std::max(kPairsAtOnce / width, 1)));
    const int height = std::gcd(rows.lanes(), static_cast<int>(most));
    const Tile column = expand(columns.of(full<i32>(0), width), 0);
    Tile count = full<i32>(0, height, width);
    for (auto i : steps(full<i32>(rows.lanes()), height)) {
      const Tile row = expand(rows.of(cast<i32>(i.first()), height), 1);
      const Tile is_kept = is_transposed ? kept(column, row) : kept(row, column);
      count = count + where(is_kept, full<i32>(1), full<i32>(0));
    }
    const Tile all = sum(sum(count, axis(1)), axis(0));
    return where(all == rows.lanes() * width, kFullBlock, where(all > 0, kPartialBlock, 0));
  }
};

}  // namespace

MaskDependence mask_dependence(const TracedFunction& mask) {
  const ir::Kernel& k = mask.function().body;
  const ir::Uses uses(k);
  const auto is_used = [&](TracedFunction::Argument a) { return uses.count(mask.argument(a)) > 0; };
  return {is_used(TracedFunction::kBatch), is_used(TracedFunction::kHead),
          step_of(k, uses, mask.argument(TracedFunction::kQuery)),
          step_of(k, uses, mask.argument(TracedFunction::kKey))};
}

CoverageKernel make_coverage_kernel(const EvaluatedMask& mask) {
  return kernel(
      "attention_block_coverage",
      [mask](Out<i32, 4> Coverage, Scalar<i32> seqlen_q, Scalar<i32> seqlen_kv,
             std::optional<In<i32, 1>> cu_q, std::optional<In<i32, 1>> cu_kv,
             bool align_bottom_right, bool is_transposed, bool is_wide) {
        const int BM = tune("BM", kListKeys, 128), BN = tune("BN", kListKeys, 128);
        Coverage.partial();  // the tensor has room for longer calls
        const MaskDependence& of = mask.dependence;
        // A shift moves the positions at which a quotient changes.
        const int query_step = align_bottom_right ? 1 : of.query_step,
                  row_step = is_transposed ? of.key_step : query_step,
                  column_step = is_transposed ? query_step : of.key_step;
        const auto coverage = [&](const Index& b, const Index& h, const Tile& m, const Tile& n,
                                  const SequenceLists& part) {
          const Tile ahead = part.seqlen_kv - part.seqlen_q;
          std::optional<Tile> shift;
          if (align_bottom_right) shift = is_transposed ? -ahead : ahead;
          const BlockEvaluation block{mask, b.first(), h.first(), is_transposed, is_wide, shift};
          return block.run({BM, row_step, m * BM, part.seqlen_q},
                           {BN, column_step, n * BN, part.seqlen_kv});
        };
        const Tile entries = Coverage.dim(0), heads = Coverage.dim(1), rows = cdiv(seqlen_q, BM);
        if (!cu_q) {
          const SequenceLists all{seqlen_q, seqlen_kv};
          for (auto [b, h, m, n] : grid({entries, heads, rows, cdiv(seqlen_kv, BN)}, 1, 1, 1, 1))
            Coverage(b, h, m, n) = coverage(b, h, m.first(), n.first(), all);
          return;
        }
        const Lengths lengths{cu_q, cu_kv};
        lengths.any_number();
        for (auto [b, h, m, share] :
             grid({cu_q->dim(0) - 1, heads, rows, full<i32>(kShares)}, 1, 1, 1, 1)) {
          const SequenceLists part = SequenceLists::of(lengths, b.first(), BN);
          const Tile blocks =
              where(m.first() * BM < part.seqlen_q, cdiv(part.seqlen_kv, BN), full<i32>(0));
          for (auto i : steps(cdiv(max(blocks - share.first(), 0), kShares), 1)) {
            const Tile n = share.first() + i.first() * kShares;
            Coverage(0, h, m, part.columns->begin + n) = coverage(b, h, m.first(), n, part);
          }
        }
      });
}

}  // namespace tegula
