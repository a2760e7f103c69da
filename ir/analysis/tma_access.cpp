#include "ir/analysis/tma_access.h"

#include <algorithm>

#include "ir/access.h"
#include "ir/analysis/index_facts.h"
#include "ir/analysis/page_boxes.h"
#include "ir/layout/shared_layout.h"
#include "ir/target.h"
#include "tegula/int_math.h"

namespace tegula::ir {
namespace {

constexpr std::int64_t kGranule = 16;  // bytes; bases and strides must be multiples
constexpr std::int64_t kNarrowestSwizzle = 32;
constexpr std::int64_t kMaxBox = 256, kMaxMapRank = 5;
constexpr std::int64_t kSector = 32;  // bytes of a memory sector, the unit of reads
constexpr std::int64_t kWidestSwizzle = 128;

/// Returns the tile dimension of the rows that TMA writes, and their number.
std::size_t row_dim(const Kernel& k, const BoxAccess& a) {
  return static_cast<std::size_t>(std::max(0, line_dim(k.type(a.view), a.along)));
}
std::int64_t row_count(const Kernel& k, const BoxAccess& a) {
  return a.tile.count() / a.tile.shape()[row_dim(k, a)];
}

/// Returns the number of half sectors that TMA reads for a row, if every second row begins in the
/// middle of a sector.
std::int64_t half_sectors(TmaSegments s, std::int64_t end) {
  std::int64_t sum = 0;
  for (std::int64_t begin = 0; begin < std::min(s.bytes(), end); begin += s.swizzle)
    sum += 2 * std::min(s.swizzle, end - begin) / kSector + 1;
  return sum;
}

}  // namespace

int line_dim(Type view, std::span<const std::int64_t> axes) {
  int line = -1;
  for (std::size_t t = 0; t < axes.size(); ++t)
    if (view.view_facts().strides[static_cast<std::size_t>(axes[t])] == 1)
      line = static_cast<int>(t);
  return line;
}

bool is_tma_loadable(Type view, std::span<const std::int64_t> axes, Type tile) {
  const ViewFacts& facts = view.view_facts();
  const std::int64_t size = size_bytes(view.dtype());
  if (facts.is_made || view.rank() > kMaxMapRank || facts.align % kGranule != 0) return false;
  bool contiguous = false;
  for (std::size_t v = 0; v < facts.strides.size(); ++v) {
    const std::int64_t stride = facts.strides[v];
    const bool tiled = std::ranges::find(axes, static_cast<std::int64_t>(v)) != axes.end();
    if (stride == 1 && tiled && !contiguous) {
      contiguous = true;
      continue;
    }
    if (stride_divisor(view, v) * size % kGranule != 0) return false;
  }
  return contiguous &&
         std::ranges::all_of(tile.shape(), [](std::int64_t e) { return e <= kMaxBox; });
}

std::string_view why_not_tma_tile(Type view, std::span<const std::int64_t> axes, Type tile) {
  const ViewFacts& facts = view.view_facts();
  if (facts.is_made) return "the kernel makes the view, which has no tensor map";
  if (tile.rank() != 2) return "it is not a tile of rows and columns";
  if (facts.align % kGranule != 0) return "the tensor does not begin at a multiple of 16 bytes";
  const int line = line_dim(view, axes);
  if (line < 0) return "neither rows nor columns are contiguous in memory";
  if (!is_tma_loadable(view, axes, tile)) return "strides are not multiples of 16 bytes";
  if (tile.shape()[static_cast<std::size_t>(line)] * size_bytes(tile.dtype()) % kNarrowestSwizzle !=
      0)
    return "rows are not a multiple of 32 bytes";
  return "";
}

std::string_view why_not_tma_load(const Kernel& k, const OpData& load) {
  const BoxAccess a = access_of(k, load);
  const bool is_gathered = a.gathered_dim() >= 0;
  if (is_gathered && !page_boxes(k, load)) return "an index tile selects its rows";
  if ((is_gathered || a.has_limits()) && std::ssize(a.axes) == kMaxMapRank)
    return "a crop ends its rows, and the tensor has 5 dimensions";
  return why_not_tma_tile(k.type(a.view), a.along, a.tile);
}

bool is_tma_row(const Kernel& k, const OpData& load) {
  const BoxAccess a = access_of(k, load);
  return a.tile.rank() == 1 && a.gathered_dim() < 0 &&
         is_tma_loadable(k.type(a.view), a.along, a.tile) &&
         a.tile.count() * size_bytes(a.tile.dtype()) % kTmaLineBytes == 0;
}

TmaSegments tma_segments(std::int64_t row, std::int64_t end, bool whole_sectors) {
  TmaSegments equal{kWidestSwizzle, 0};
  while (equal.swizzle >= kNarrowestSwizzle && row % equal.swizzle != 0) equal.swizzle /= 2;
  if (equal.swizzle < kNarrowestSwizzle) return {};
  equal.count = row / equal.swizzle;
  const TmaSegments wide{kWidestSwizzle, ceil_div(row, kWidestSwizzle)};
  return !whole_sectors && half_sectors(wide, end) < half_sectors(equal, end) ? wide : equal;
}

TmaSegments tma_segments(const Kernel& k, const OpData& load) {
  const BoxAccess a = access_of(k, load);
  const Type view = k.type(a.view);
  const std::size_t along = row_dim(k, a);
  const std::int64_t size = size_bytes(a.tile.dtype()), row = a.tile.shape()[along] * size;
  bool whole_sectors = true;
  if (a.tile.rank() == 2 && row_count(k, a) % kSwizzleRows == 0)
    for (std::size_t v = 0; v < a.axes.size(); ++v)
      whole_sectors = whole_sectors && (view.view_facts().strides[v] == 1 ||
                                        stride_divisor(view, v) * size % kSector == 0);
  const std::int64_t extent = view.shape()[static_cast<std::size_t>(a.along[along])];
  const bool is_whole = extent != kDynamic && extent * size <= row;
  return tma_segments(row, is_whole ? extent * size : row + kWidestSwizzle, whole_sectors);
}

std::int64_t tma_tile_bytes(const Kernel& k, const OpData& load) {
  const BoxAccess a = access_of(k, load);
  const std::int64_t bytes = a.tile.count() * size_bytes(a.tile.dtype());
  if (a.tile.rank() != 2) return bytes;
  return std::max(bytes, row_count(k, a) * tma_segments(k, load).bytes());
}

std::int64_t slot_bytes(Type ring) {
  const SharedLayout* layout = ring.shared_layout();
  const std::int64_t bytes = ring.count() / ring.shape()[0] * size_bytes(ring.dtype());
  if (layout == nullptr) return bytes;
  const auto& pieces = layout->piece_list();
  if (pieces.size() != 1 || pieces.front().swizzle == 0) return bytes;
  const std::int64_t row = ring.shape()[static_cast<std::size_t>(layout->order()[0])];
  return bytes / (row * size_bytes(ring.dtype())) * pieces.front().width * pieces.front().count;
}

bool is_multicast_splittable(const Kernel& k, const OpData& load) {
  const BoxAccess a = access_of(k, load);
  if (a.tile.rank() != 2 || a.gathered_dim() >= 0) return false;
  const TmaSegments segments = tma_segments(k, load);
  return (segments.count > 0 && segments.count % 2 == 0) ||
         row_count(k, a) % (2 * kSwizzleRows) == 0;
}

}  // namespace tegula::ir
