#include "ir/copy_layout.h"

#include <algorithm>

#include "ir/layout/distributed.h"

namespace tegula::ir {

LinearLayout copy_layout(const Dims& shape, int fast, int vector, int warps) {
  Dims order{fast};
  for (int dim = shape.size() - 1; dim >= 0; --dim)
    if (dim != fast) order.push_back(dim);
  const LinearLayout padded = coalesced(shape, vector, warps, order);
  if (padded.is_exact()) return padded;
  const LinearLayout exact = unpadded(shape, vector, warps, order);
  // Bits of the thread's number address the slots, not digits in another base.
  const bool has_digits = std::ranges::any_of(
      padded.repeats(), [](const Repeat& r) { return r.in != HwDim::Register; });
  return !has_digits && padded.registers() < exact.registers() ? padded : exact;
}

}  // namespace tegula::ir
