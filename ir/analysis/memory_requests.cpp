#include "ir/analysis/memory_requests.h"

#include <algorithm>
#include <cmath>

#include "ir/access.h"
#include "ir/analysis/access_width.h"
#include "tegula/int_math.h"

namespace tegula::ir {
namespace {

constexpr double kL2Line = 128, kL2Sector = 32;

/// Returns the lines of a run of bytes.
double lines_of_run(double bytes) {
  return bytes <= kL2Line ? 0.25 + 0.75 * std::max(bytes, kL2Sector) / kL2Line
                          : std::ceil(bytes / kL2Line);
}

/// Returns the lines that 128 bytes of a row touch, given the distance between rows.
double split_of(std::int64_t stride_bytes) {
  return stride_bytes % 128 == 0 ? 1 : stride_bytes % 64 == 0 ? 1.5 : 2;
}

}  // namespace

MemoryRequests requests_of_box(const Kernel& k, const OpData& box, const CallNumbers& numbers,
                               GridDims& grid) {
  const BoxAccess a = access_of(k, box);
  const TensorArg* tensor = numbers.tensor(a.view);
  const int along = contiguous_dim(k, box), size = size_bytes(k.type(a.view).dtype());
  double run = 1, runs = 1, split = 1;
  for (std::size_t v = 0; v < a.axes.size(); ++v) {
    if (a.axes[v].tile_dim < 0) continue;
    const std::int64_t block = a.axes[v].extent,
                       extent = tensor ? std::max<std::int64_t>(tensor->dims[v], 1) : block;
    const bool is_along = a.axes[v].tile_dim == along;
    (is_along ? run : runs) *=
        static_cast<double>(extent) / static_cast<double>(ceil_div(extent, block));
    if (tensor && !is_along && block > 1)
      split = std::max(split, split_of(tensor->strides[v] * size));
  }
  const double lines = runs * lines_of_run(run * size);
  MemoryRequests r;
  r.bytes = run * size < kL2Line ? lines * kL2Line : run * runs * size;
  r.lines = lines * split;
  if (along >= 0) r.elements_at_once = std::max(1, access_elements(k, box));
  for (const AccessAxis& axis : a.axes) r.depends |= grid.of(axis.offset);
  return r;
}

MemoryRequests requests_by_address(const Kernel& k, const OpData& access, GridDims& grid) {
  const Type pointers = k.type(access.operands[0]);
  const double elements = pointers.is_tile() ? static_cast<double>(pointers.count()) : 1;
  const double size = size_bytes(pointers.dtype());
  const bool is_adjacent = access.attrs.has(AttrName::axis);
  return {elements * size, elements * (is_adjacent ? size : kL2Sector) / kL2Line,
          is_adjacent ? 4.0 : 1.0, grid.of(access.operands[0])};
}

}  // namespace tegula::ir
