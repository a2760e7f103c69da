#include "tools/workload/mask_pairs.h"

#include <utility>

#include "tegula/int_math.h"

namespace tegula {
using ir::BlockCoverage;
using ir::MaskBlock;

namespace {

/// Limits the run time for masks that must be decided pair by pair.
constexpr std::int64_t kMaxBlocks = 16'000'000;

/// Splits a block along the side with more units into two parts of whole units.
std::pair<MaskBlock, MaskBlock> halves(const MaskBlock& b, BlockExtent unit) {
  const std::int64_t rows = ceil_div(b.q1 - b.q0, unit.queries),
                     columns = ceil_div(b.kv1 - b.kv0, unit.keys);
  MaskBlock first = b, second = b;
  if (rows > columns)
    first.q1 = second.q0 = b.q0 + rows / 2 * unit.queries;
  else
    first.kv1 = second.kv0 = b.kv0 + columns / 2 * unit.keys;
  return {first, second};
}

std::int64_t pairs_in(const MaskBlock& b) { return (b.q1 - b.q0) * (b.kv1 - b.kv0); }

}  // namespace

MaskPairs MaskPairCounter::count(const MaskBlock& all) {
  MaskPairs sum;
  budget_ = kMaxBlocks;
  if (all.q0 < all.q1 && all.kv0 < all.kv1) count_blocks(all, sum);
  return sum;
}

void MaskPairCounter::count_blocks(const MaskBlock& b, MaskPairs& sum) {
  const std::int64_t blocks =
      ceil_div(b.q1 - b.q0, cover_.queries) * ceil_div(b.kv1 - b.kv0, cover_.keys);
  const BlockCoverage c = blocks_.classify(b, params_, 0);
  if (c == BlockCoverage::Empty) return;
  const bool is_full = c == BlockCoverage::Full;
  if (is_full || --budget_ < 0) {
    sum.least += is_full ? pairs_in(b) : 0;
    sum.most += pairs_in(b);
    sum.cover += blocks * cover_.queries * cover_.keys;
  } else if (blocks == 1) {
    const std::int64_t before = sum.most;
    count_within(b, sum);
    if (sum.most > before) sum.cover += cover_.queries * cover_.keys;
  } else {
    const auto [first, second] = halves(b, cover_);
    count_blocks(first, sum);
    count_blocks(second, sum);
  }
}

void MaskPairCounter::count_within(const MaskBlock& b, MaskPairs& sum) {
  const BlockCoverage c = blocks_.classify(b, params_, 0);
  if (c == BlockCoverage::Empty) return;
  const std::int64_t pairs = pairs_in(b);
  if (c == BlockCoverage::Full || pairs == 1 || --budget_ < 0) {
    sum.least += c == BlockCoverage::Full ? pairs : 0;
    sum.most += pairs;
    return;
  }
  const auto [first, second] = halves(b, {1, 1});
  count_within(first, sum);
  count_within(second, sum);
}

}  // namespace tegula
