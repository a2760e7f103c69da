#include "kernels/attention/list_args.h"

#include <algorithm>

#include "kernels/argument_error.h"
#include "tegula/int_math.h"

namespace tegula::kernels {
namespace {

/// Returns the tensor with leading dimensions of extent 1 broadcast to the rows; throws if invalid.
Tensor fitted(const Tensor& t, const char* name, const ListedRows& rows, int rank) {
  if (t.dtype() != DType::i32 || t.rank() != rank || t.device() != rows.Q.device())
    throw_argument_error(ErrorId::list_tensor, name, t.str(), rows.Q.str(), rank);
  Dims shape = rows.extents;
  if (rows.may_be_longer) shape[2] = std::max(shape[2], t.size(2));
  if (rank == 4) shape.push_back(t.size(3));
  for (int d = 0; d < 3; ++d) {
    const bool fits = t.size(d) == shape[static_cast<std::size_t>(d)] || (d < 2 && t.size(d) == 1);
    if (!fits) throw_argument_error(ErrorId::list_extents, name, t.str(), rows.extents.str());
  }
  return t.broadcast_to(shape);
}

}  // namespace

void check_blocks(const BlockList& list) {
  if (std::ranges::find(kListQueries, list.block_q) == kListQueries.end() ||
      std::ranges::find(kListKeys, list.block_kv) == kListKeys.end())
    throw_argument_error(ErrorId::list_blocks_size, list.block_q, list.block_kv);
}

ListedRows listed_rows(const BlockList& list, const Tensor& Q, const CuSeqlens& lengths) {
  const bool is_varlen = lengths.q.defined();
  return {Q,
          {is_varlen ? lengths.q.size(0) - 1 : Q.size(0), Q.size(1),
           ceil_div(is_varlen ? lengths.max_seqlen_q : Q.size(2), list.block_q)},
          is_varlen};
}

BlockListArgs list_args(const BlockList& list, const ListedRows& rows) {
  const Tensor full = list.full_kv_num_blocks.defined()
                          ? fitted(list.full_kv_num_blocks, "full_kv_num_blocks", rows, 3)
                          : Tensor();
  return {fitted(list.kv_indices, "kv_indices", rows, 4),
          fitted(list.kv_num_blocks, "kv_num_blocks", rows, 3),
          full,
          {}};
}

void check_written(const BlockList& list, const ListedRows& rows, const MaskDependence& mask,
                   std::int64_t blocks) {
  check_blocks(list);
  const Tensor &counts = list.kv_num_blocks, &indices = list.kv_indices;
  const BlockListArgs args = list_args(list, rows);
  const auto refuse = [&](const char* name, const Tensor& t) {
    throw_argument_error(ErrorId::list_extents, name, t.str(), rows.extents.str());
  };
  for (const auto& [d, is_needed] : {std::pair{0, mask.on_batch}, {1, mask.on_head}})
    if (is_needed && counts.size(d) != args.counts.size(d)) refuse("kv_num_blocks", counts);
  if (!args.full.defined() || list.full_kv_num_blocks.shape() != counts.shape())
    refuse("full_kv_num_blocks", list.full_kv_num_blocks);
  Dims of_indices = counts.shape();
  of_indices.push_back(indices.size(3));
  if (indices.shape() != of_indices || indices.size(3) < blocks) refuse("kv_indices", indices);
}

BlockListSlots list_slots(PlanBuilder& plan, const BlockList& list, const ListedRows& rows,
                          const BlockListSlots& given) {
  const BlockListArgs fitted = list_args(list, rows);
  const auto as = [&](PlanSlot slot, const Tensor& t) {
    return t.defined() ? plan.broadcast_to(slot, t.shape()) : PlanSlot();
  };
  return {as(given.blocks, fitted.blocks),
          as(given.counts, fitted.counts),
          as(given.full, fitted.full),
          {}};
}

}  // namespace tegula::kernels
