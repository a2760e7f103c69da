#pragma once
// Checks the tensors of a call of attention and prepares the kernel's views of them.
#include <cstdint>
#include <optional>

#include "tegula/kernels/attention.h"

namespace tegula {

/// Arguments of the kernel: views of rank 4, Lse and row_max of rank 3.
struct AttentionCall {
  Tensor Q, K, V, O;
  AttentionExtras extras;
  CuSeqlens lengths;  ///< undefined tensors: one sequence an entry of the batch
  bool pack_gqa = false;
  std::int32_t seqlen_q = 0;  ///< queries of a packed head, or of the longest sequence
};

/// Checks [batch, heads, length, dim].
AttentionCall dense_call(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O,
                         const AttentionExtras& extras);
/// Checks [total length, heads, dim].
AttentionCall varlen_call(const Tensor& Q, const Tensor& K, const Tensor& V, const Tensor& O,
                          const CuSeqlens& lengths, const AttentionExtras& extras);

/// [total, heads, ..] as the only entry of a batch: [1, heads, total, ..].
Tensor as_batch(const Tensor& t);
/// [batch, heads, length, ..] as [batch, kv_heads, group * length, ..], if rows of a group's heads
/// lie evenly spaced.
std::optional<Tensor> grouped(const Tensor& t, std::int64_t kv_heads);

/// Throws where there are more queries than keys.
void require_keys_for_queries(const Tensor& Q, const Tensor& K);

/// The heads of each group as rows of one head, where their rows are evenly spaced in memory: the
/// same call where they are not, or where there is no group. `wanted` by the caller or not;
/// otherwise where queries are few.
AttentionCall with_packed_gqa(AttentionCall call, std::optional<bool> wanted);

}  // namespace tegula
