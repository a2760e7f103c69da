#include "ir/analysis/tma_access.h"

#include <algorithm>

namespace tegula::ir {
namespace {

constexpr std::int64_t kGranule = 16;  // bytes that bases and strides must be multiples of
constexpr std::int64_t kMaxBox = 256, kMaxRank = 5;

}  // namespace

bool is_tma_box(Type view, std::span<const std::int64_t> axes, Type tile) {
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

bool can_be_halved(Type view, std::span<const std::int64_t> axes, Type tile) {
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
