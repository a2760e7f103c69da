#include "kernels/attention/list_args.h"

#include <algorithm>

#include "kernels/attention/arguments.h"
#include "tegula/quotients.h"

namespace tegula {
namespace {

/// The tensor with the first dimensions of extent 1 repeated.
Tensor fitted(const Tensor& t, const char* name, const Dims& rows, int rank, const Tensor& Q) {
  const std::string what = std::string("BlockList::") + name;
  if (t.dtype() != DType::i32 || t.rank() != rank || t.device() != Q.device())
    refuse(what + " is " + t.str() + ", Q is " + Q.str(),
           "it must be i32 of rank " + std::to_string(rank) + " on the device of Q");
  Dims shape = rows;
  if (rank == 4) shape.push_back(t.size(3));
  for (int d = 0; d < 3; ++d) {
    const bool fits = t.size(d) == rows[static_cast<std::size_t>(d)] || (d < 2 && t.size(d) == 1);
    if (!fits)
      refuse(what + " is " + t.str() + " for " + rows.str() + " batch entries, heads and tiles",
             "give it these extents; the first two may be 1");
  }
  return t.broadcast_to(shape);
}

}  // namespace

void check_blocks(const BlockList& list) {
  if (std::ranges::find(kListQueries, list.block_q) == kListQueries.end() ||
      std::ranges::find(kListKeys, list.block_kv) == kListKeys.end())
    refuse("blocks of a BlockList are " + std::to_string(list.block_q) + " x " +
               std::to_string(list.block_kv),
           "use one of attention's tiles, such as 128 x 128");
}

ListArgs list_args(const BlockList& list, const Tensor& Q) {
  const Dims rows{Q.size(0), Q.size(1), ceil_div(Q.size(2), list.block_q)};
  const Tensor full = list.full.defined() ? fitted(list.full, "full", rows, 3, Q) : Tensor();
  return {fitted(list.blocks, "blocks", rows, 4, Q),
          fitted(list.counts, "counts", rows, 3, Q),
          full,
          {}};
}

}  // namespace tegula
