#pragma once
#include <source_location>

#include "tegula/export.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/moe.h"

/// Library callables for TEGULA_EXPORT.
namespace tegula::kernels {

/// `(q, k, v, o, lse)`: q [B, H, Q, D], k [B, G, K, D], v [B, G, K, E], o [B, H, Q, E], all bf16 or
/// all f16, and lse [B, H, Q], f32, which is optional.
Exportable exportable(const Attention& attention);

/// `(x, logits, up, down, y)`: x and y [T, H], logits [T, E], f32, up [G, U, H], down [G, H, I],
/// where G includes shared experts; all but the logits are bf16 or f16. Weights as in MoeWeights.
Exportable exportable(const Moe& layer);

/// The forward pass for training: the tensors of MoeSaved follow y, `(.., y, ids, weights, row_of,
/// slot_of, offsets, first_tiles, hidden)`, all of them outputs. Throws CompileError for expert
/// choice, whose number of rows cannot be derived from a dimension.
Exportable moe_forward(const Moe& layer, Loc at = std::source_location::current());
/// The backward pass, `(grad_y, x, logits, up, down, ids, .., hidden, grad_x, grad_logits, grad_up,
/// grad_down)`. Pass kMoeSaved to TEGULA_EXPORT_BACKWARD as the list of saved tensors.
Exportable moe_backward(const Moe& layer, Loc at = std::source_location::current());
inline constexpr const char* kMoeSaved =
    "x logits up down ids weights row_of slot_of offsets first_tiles hidden";

}  // namespace tegula::kernels
