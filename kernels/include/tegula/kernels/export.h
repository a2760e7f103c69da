#pragma once
#include <source_location>
#include <vector>

#include "tegula/export.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/moe.h"

/// Library callables for TEGULA_EXPORT.
namespace tegula::kernels {

/// A tensor that the score of an exported attention captures by reference, as a parameter: the
/// variable has the argument's value during each call, and such calls run one at a time. When the
/// attention is made, it holds a tensor of that type and rank, of any extents.
struct CapturedParameter {
  const char* name;
  Tensor* variable;
  DType dtype;       ///< f32, bf16 or f16, also of the gradient
  const char* dims;  ///< such as "B H Q K": names of the attention's dimensions, or others
};

/// `(q, k, v, o, lse, sinks, ..)`: q [B, H, Q, D], k [B, G, K, D], v [B, G, K, E], o [B, H, Q, E],
/// all bf16 or all f16; the output lse [B, H, Q] and the input sinks [H], both f32, are optional.
/// Captured parameters follow.
Exportable exportable(const Attention& attention,
                      const std::vector<CapturedParameter>& captured = {});
/// The backward pass, `(grad_o, grad_lse, q, k, v, o, lse, sinks, .., grad_q, grad_k, grad_v,
/// grad_sinks, ..)`: grad_lse, sinks and all outputs are optional. Captured parameters follow
/// sinks, their gradients follow grad_sinks. The saved tensors for TEGULA_EXPORT_BACKWARD are
/// kAttentionSaved, or "q k v o" where weights are scores (AttentionNormalization::none), which
/// have no lse, and then the captured parameters: "q k v o lse sinks bias".
Exportable attention_backward(const Attention& attention,
                              const std::vector<CapturedParameter>& captured = {});
inline constexpr const char* kAttentionSaved = "q k v o lse sinks";

/// Attention over a paged cache, `(q, k_cache, v_cache, q_offsets, kv_lengths, max_seqlen_q, o,
/// table, lse, sinks)`: q [T, H, D], caches [P, R, G, D] and [P, R, G, E], o [T, H, E], all bf16 or
/// all f16; q_offsets [B + 1], kv_lengths [B] and table [B or more, C], i32; the output lse [T, H]
/// and sinks [H], f32. Table, lse and sinks are optional. Rows of no request are not written.
Exportable paged_attention(const Attention& attention);
/// `append`, `(k, v, k_cache, v_cache, q_offsets, kv_lengths, max_seqlen_q, table, slots, cos, sin,
/// positions, q)`: k [T, G, D] and v [T, G, E] are stored in the caches; the parameters after
/// max_seqlen_q are those of KvCache and KvAppend, optional, and q [T, H, D] is rotated in place.
Exportable kv_append(RopePairs pairs = RopePairs::half_split);

/// `(x, logits, up, down, y)`: x and y [T, H], logits [T, E], f32, up [G, U, H], down [G, H, I],
/// where G includes shared experts; all but the logits are bf16 or f16. Weights as in MoeWeights.
Exportable exportable(const Moe& layer);

/// The forward pass for training: the tensors of MoeSaved follow y, `(.., y, ids, weights, row_of,
/// slot_of, offsets, first_tiles, hidden)`, all of them outputs. Throws CompileError for expert
/// choice, whose number of rows cannot be derived from a dimension.
Exportable moe_forward(const Moe& layer, Loc at = std::source_location::current());
/// The backward pass, `(grad_y, x, logits, up, down, ids, .., hidden, grad_x, grad_logits, grad_up,
/// grad_down)`, whose outputs apart from grad_x are optional. Pass kMoeSaved to
/// TEGULA_EXPORT_BACKWARD as the list of saved tensors.
Exportable moe_backward(const Moe& layer, Loc at = std::source_location::current());
inline constexpr const char* kMoeSaved =
    "x logits up down ids weights row_of slot_of offsets first_tiles hidden";

}  // namespace tegula::kernels
