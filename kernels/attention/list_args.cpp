#include "kernels/attention/list_args.h"

#include <algorithm>

#include "kernels/argument_error.h"
#include "tegula/int_math.h"

namespace tegula::kernels {
namespace {

/// Returns the tensor with leading dimensions of extent 1 broadcast to `rows`; throws if invalid.
Tensor fitted(const Tensor& t, const char* name, const Dims& rows, int rank, const Tensor& Q) {
  if (t.dtype() != DType::i32 || t.rank() != rank || t.device() != Q.device())
    throw_argument_error(ErrorId::list_tensor, name, t.str(), Q.str(), rank);
  Dims shape = rows;
  if (rank == 4) shape.push_back(t.size(3));
  for (int d = 0; d < 3; ++d) {
    const bool fits = t.size(d) == rows[static_cast<std::size_t>(d)] || (d < 2 && t.size(d) == 1);
    if (!fits) throw_argument_error(ErrorId::list_extents, name, t.str(), rows.str());
  }
  return t.broadcast_to(shape);
}

}  // namespace

void check_blocks(const BlockList& list) {
  if (std::ranges::find(kListQueries, list.block_q) == kListQueries.end() ||
      std::ranges::find(kListKeys, list.block_kv) == kListKeys.end())
    throw_argument_error(ErrorId::list_blocks_size, list.block_q, list.block_kv);
}

BlockListArgs list_args(const BlockList& list, const Tensor& Q) {
  const Dims rows{Q.size(0), Q.size(1), ceil_div(Q.size(2), list.block_q)};
  const Tensor full = list.full_kv_num_blocks.defined()
                          ? fitted(list.full_kv_num_blocks, "full_kv_num_blocks", rows, 3, Q)
                          : Tensor();
  return {fitted(list.kv_indices, "kv_indices", rows, 4, Q),
          fitted(list.kv_num_blocks, "kv_num_blocks", rows, 3, Q),
          full,
          {}};
}

BlockListSlots list_slots(PlanBuilder& plan, const BlockList& list, const Tensor& Q,
                          const BlockListSlots& given) {
  const BlockListArgs fitted = list_args(list, Q);
  const auto as = [&](PlanSlot slot, const Tensor& t) {
    return t.defined() ? plan.broadcast_to(slot, t.shape()) : PlanSlot();
  };
  return {as(given.blocks, fitted.blocks),
          as(given.counts, fitted.counts),
          as(given.full, fitted.full),
          {}};
}

}  // namespace tegula::kernels
