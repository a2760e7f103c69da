#pragma once
#include "tegula/export.h"
#include "tegula/kernels/attention.h"

/// Callables of the library for TEGULA_EXPORT.
namespace tegula {

/// `(q, k, v, o, lse)`: q [B, H, Q, D], k [B, G, K, D], v [B, G, K, E], o [B, H, Q, E], all bf16 or
/// all f16, and lse [B, H, Q], f32, which a call may leave out.
Exportable exportable(const Attention& attention);

}  // namespace tegula
