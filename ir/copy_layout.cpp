#include "ir/copy_layout.h"

#include "ir/layout/distributed.h"

namespace tegula::ir {

LinearLayout copy_layout(const Dims& shape, int fast, int vector, int warps) {
  Dims order{fast};
  for (int dim = shape.size() - 1; dim >= 0; --dim)
    if (dim != fast) order.push_back(dim);
  // Each byte is written once: lanes that pad would write over their neighbours'.
  const LinearLayout dist = coalesced(shape, vector, warps, order);
  return dist.is_exact() ? dist : unpadded(shape, vector, warps, order);
}

}  // namespace tegula::ir
