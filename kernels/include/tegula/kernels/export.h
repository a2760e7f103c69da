#pragma once
#include <source_location>

#include "tegula/export.h"
#include "tegula/kernels/attention.h"
#include "tegula/kernels/moe.h"

/// Callables of the library for TEGULA_EXPORT.
namespace tegula {

/// `(q, k, v, o, lse)`: q [B, H, Q, D], k [B, G, K, D], v [B, G, K, E], o [B, H, Q, E], all bf16 or
/// all f16, and lse [B, H, Q], f32, which a call may leave out.
Exportable exportable(const Attention& attention);

/// `(x, logits, up, down, y)`: x and y [T, H], logits [T, E], f32, up [G, U, H], down [G, H, I],
/// where G counts shared experts, too; all but the logits bf16 or f16. Weights as in MoeWeights.
Exportable exportable(const Moe& layer);

/// The same for training: behind y the tensors of MoeSaved, `(.., y, ids, weights, row_of, slot_of,
/// offsets, first_tiles, hidden)`, all outputs. Throws CompileError for expert choice, whose number
/// of rows follows from no dimension.
Exportable moe_forward(const Moe& layer, Loc at = std::source_location::current());
/// Its backward, `(grad_y, x, logits, up, down, ids, .., hidden, grad_x, grad_logits, grad_up,
/// grad_down)`. TEGULA_EXPORT_BACKWARD names kMoeSaved as what it takes.
Exportable moe_backward(const Moe& layer, Loc at = std::source_location::current());
inline constexpr const char* kMoeSaved =
    "x logits up down ids weights row_of slot_of offsets first_tiles hidden";

}  // namespace tegula
