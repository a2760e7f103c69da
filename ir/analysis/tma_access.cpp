#include "ir/analysis/tma_access.h"

#include <algorithm>

namespace tegula::ir {
namespace {

constexpr std::int64_t kGranule = 16;  // bytes that bases and strides must be multiples of
constexpr std::int64_t kNarrowestSwizzle = 32;
constexpr std::int64_t kMaxBox = 256, kMaxRank = 5;

}  // namespace

bool is_tma_loadable(Type view, std::span<const std::int64_t> axes, Type tile) {
  const ViewFacts& facts = view.view_facts();
  const std::int64_t size = size_bytes(view.dtype());
  if (view.rank() > kMaxRank || facts.align % kGranule != 0) return false;
  bool contiguous = false;
  for (std::size_t v = 0; v < facts.strides.size(); ++v) {
    const std::int64_t stride = facts.strides[v];
    const bool tiled = std::ranges::find(axes, static_cast<std::int64_t>(v)) != axes.end();
    if (stride == 1 && tiled && !contiguous) {
      contiguous = true;
      continue;
    }
    if ((stride == kDynamic ? facts.stride_div[v] : stride) * size % kGranule != 0) return false;
  }
  return contiguous &&
         std::ranges::all_of(tile.shape(), [](std::int64_t e) { return e <= kMaxBox; });
}

std::string_view why_not_tma_tile(Type view, std::span<const std::int64_t> axes, Type tile) {
  const ViewFacts& facts = view.view_facts();
  if (tile.rank() != 2) return "it is no tile of rows and columns";
  if (facts.align % kGranule != 0) return "the tensor does not begin at a multiple of 16 bytes";
  const auto row = std::ranges::find_if(
      axes, [&](std::int64_t v) { return facts.strides[static_cast<std::size_t>(v)] == 1; });
  if (row == axes.end()) return "neither rows nor columns are contiguous in memory";
  if (!is_tma_loadable(view, axes, tile)) return "strides are no multiples of 16 bytes";
  const auto fast = static_cast<std::size_t>(row - axes.begin());
  if (tile.shape()[fast] * size_bytes(tile.dtype()) % kNarrowestSwizzle != 0)
    return "rows are no multiple of 32 bytes";
  return "";
}

bool is_tma_row(Type view, std::span<const std::int64_t> axes, Type tile) {
  return tile.rank() == 1 && is_tma_loadable(view, axes, tile) &&
         tile.count() * size_bytes(tile.dtype()) % kTmaLineBytes == 0;
}

bool is_multicast_splittable(Type view, std::span<const std::int64_t> axes, Type tile) {
  constexpr std::int64_t kPattern = 8;
  if (tile.rank() != 2) return false;
  const ViewFacts& facts = view.view_facts();
  const std::size_t fast = facts.strides[static_cast<std::size_t>(axes[0])] == 1 ? 0 : 1;
  const std::int64_t row = tile.shape()[fast] * size_bytes(tile.dtype());
  std::int64_t swizzle = 128;
  while (swizzle > 16 && row % swizzle != 0) swizzle /= 2;
  return row / swizzle % 2 == 0 || tile.shape()[1 - fast] % (2 * kPattern) == 0;
}

}  // namespace tegula::ir
