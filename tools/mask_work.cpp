#include "tools/mask_work.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "ir/analysis/mask/formula.h"
#include "kernels/attention/kv_traversal.h"
#include "tegula/device_profile.h"
#include "tegula/tegula.h"
#include "tools/workload/tile_schedule.h"
#include "tools/workload/traced_mask.h"

namespace tegula::tools {
using namespace kernels;
namespace {

/// A mask of the table, and its numbers for s queries and keys.
struct MaskWorkRow {
  std::string name;
  MaskScalars (*numbers)(int s);
};

/// bench/attention_suites.py times the first four.
const std::vector<MaskWorkRow>& mask_work_rows() {
  static const std::vector<MaskWorkRow> kRows{
      {"causal", [](int) { return MaskScalars{}; }},
      {"sliding_window", [](int) { return MaskScalars{1024}; }},
      {"prefix_lm", [](int s) { return MaskScalars{s / 4}; }},
      {"packed_causal", [](int) { return MaskScalars{12}; }},
      {"full", [](int) { return MaskScalars{}; }},
      {"causal_bottom_right", [](int) { return MaskScalars{}; }},
      {"sliding_window", [](int) { return MaskScalars{256}; }},
      {"window", [](int) { return MaskScalars{1024, 512}; }},
      {"sink_window", [](int) { return MaskScalars{4, 1024}; }},
      {"chunked", [](int s) { return MaskScalars{s / 4}; }},
      {"block_causal", [](int) { return MaskScalars{192}; }},
      {"batchify_causal", [](int s) { return MaskScalars{s / 4}; }},
      {"block_diffusion", [](int s) { return MaskScalars{s / 2, 128}; }},
      {"block_diffusion", [](int s) { return MaskScalars{s / 2, 96}; }},
      {"speculative_blocks", [](int s) { return MaskScalars{s / 4, 128}; }},
      {"document", [](int s) { return MaskScalars{s / 4 - 24}; }},
      {"causal_document", [](int s) { return MaskScalars{s / 4 - 24}; }},
      {"shared_prefix", [](int s) { return MaskScalars{s / 4, 12}; }},
      {"global_window", [](int) { return MaskScalars{1024, 1024}; }},
      {"key_padding", [](int s) { return MaskScalars{s - 300}; }},
      {"left_padding", [](int) { return MaskScalars{300}; }},
  };
  return kRows;
}

constexpr int kLengths[]{4096, 16384};

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}
/// Returns the ratio a / b, or "-" if b is undecided or 0.
std::string per(std::int64_t a, std::optional<std::int64_t> b) {
  return b && *b > 0 ? fmt::format("{:.3f}", ratio(a, *b)) : "-";
}

}  // namespace

AttentionWorkload pairs_under(const Mask& mask, const MaskLengths& l, const HeadShape& heads) {
  // Only the extents of these tensors matter.
  const auto tensor = [&](int length) {
    return Tensor::zeros({1, 1, 1, 1}, DType::bf16, Device::cpu())
        .broadcast_to({1, heads.heads, length, heads.dim});
  };
  return attention_pairs({.mask = mask}, tensor(l.q), tensor(l.kv), tensor(l.kv));
}

namespace {

/// A mask of the table for `length` queries and keys.
struct Case {
  std::string name;  ///< including its numbers
  int length;
  Mask mask;
  AttentionWorkload pairs;
};

void for_each_case(const HeadShape& heads, const std::function<void(const Case&)>& visit) {
  for (const MaskWorkRow& row : mask_work_rows())
    for (const int s : kLengths) {
      const MaskLengths lengths{s, s};
      const MaskScalars numbers = row.numbers(s);
      const Mask mask = mask_entry(row.name).make(numbers, lengths);
      visit({fmt::format("`{}({})`", row.name, fmt::join(numbers, ", ")), s, mask,
             pairs_under(mask, lengths, heads)});
    }
}

}  // namespace

std::string text(const AttentionWorkload& p) {
  return fmt::format(
      "pairs: {} kept, {} computed by tiles of {} x {}, {} in the best cover by {} x {} blocks; "
      "computed/kept {}, cover/kept {}, computed/cover {}",
      p.kept ? std::to_string(*p.kept) : "undecided", p.computed, p.tiles.block_q, p.tiles.block_kv,
      p.cover, kCoverQueries, kCoverKeys, per(p.computed, p.kept), per(p.cover, p.kept),
      per(p.computed, p.cover));
}

std::string order_table(const HeadShape& heads) {
  std::string table =
      "| mask | length | steps | tiles | today | by head | all | today, 4 | by head, 4 | all, 4 |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for_each_case(heads, [&](const Case& c) {
    const auto [least, most] = std::ranges::minmax_element(c.pairs.steps);
    const bool is_counted = KvTraversal({.mask = c.mask}).uses_block_list();
    table += fmt::format("| {} | {} | {}..{} | {} |", c.name, c.length, *least, *most,
                         is_counted ? "counted" : "static");
    for (const int entries : {1, 4})
      for (const TileOrderKind o :
           {TileOrderKind::balanced_pairs, TileOrderKind::lpt_per_head, TileOrderKind::lpt}) {
        const bool is_static = o == TileOrderKind::balanced_pairs && !is_counted;
        const auto times = tile_times(c.pairs.steps, std::int64_t{entries} * heads.heads, o);
        table += fmt::format(" {:.3f} |", makespan_ratio(times, host_profile().num_sms,
                                                         is_static ? TileSchedulerKind::static_
                                                                   : TileSchedulerKind::counter));
      }
    table += "\n";
  });
  return table;
}

std::string work_table(const HeadShape& heads) {
  std::string table =
      "| mask | class | length | tiles | computed/kept | cover/kept | computed/cover |\n"
      "|---|---|---|---|---|---|---|\n";
  for_each_case(heads, [&](const Case& c) {
    const AttentionWorkload& p = c.pairs;
    table += fmt::format("| {} | {} | {} | {} x {} | {} | {} | {} |\n", c.name,
                         name(ir::solve_mask(trace_mask(c.mask).expr).mask_class), c.length,
                         p.tiles.block_q, p.tiles.block_kv, per(p.computed, p.kept),
                         per(p.cover, p.kept), per(p.computed, p.cover));
  });
  return table;
}

}  // namespace tegula::tools
