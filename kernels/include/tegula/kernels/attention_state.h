#pragma once
#include <source_location>
#include <span>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Attention of the same queries to several sets of keys, combined.
namespace tegula::kernels {

/// The result of attention to a set of keys: O [rows, heads, head dim] and lse f32 [rows, heads],
/// as `Attention::paged` and `varlen` store them. lse is a natural logarithm, -inf without keys;
/// O of such a row is not read. Requires attention with softmax.
struct AttentionState {
  Tensor O, lse;
};

/// Computes the attention to the keys of all parts, 1 to 4 disjoint sets, in the order of the
/// parts: bitwise reproducible. O and the parts have one type, bf16, f16 or f32, and any strides,
/// with a contiguous last dimension; O may not share memory with a part. A row without keys gives 0
/// and lse -inf. Attention sinks belong to one of the parts. Throws CompileError (T1661, T1662) for
/// invalid arguments.
void merge_states(const Stream& stream, std::span<const AttentionState> parts, const Tensor& O,
                  const Tensor& lse = {}, Loc at = std::source_location::current());

}  // namespace tegula::kernels
