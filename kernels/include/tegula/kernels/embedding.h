#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Rows of a table by their numbers, and the gradient of the table.
namespace tegula {

/// y = table[ids]: y [tokens, columns] and table [rows, columns] of bf16, f16 or f32, ids i32
/// [tokens]. An id that is no row, such as -1 for padding, gives zeros. Memory-bound. Throws
/// CompileError for invalid arguments.
void embedding(const Stream& stream, const Tensor& table, const Tensor& ids, const Tensor& y,
               Loc at = std::source_location::current());

/// Order in which a row of the table gets the gradients of its tokens.
enum class ScatterOrder : std::uint8_t {
  any,     ///< as programs come (atomics): sums may differ in their last bits between calls
  tokens,  ///< the tokens' own: the same bits in every call; slower where few ids are frequent
};

/// dtable[ids] += dy: dtable f32 [rows, columns], to which gradients are added, dy bf16, f16 or f32
/// [tokens, columns]. Ids that are no row are skipped.
void embedding_backward(const Stream& stream, const Tensor& dy, const Tensor& ids,
                        const Tensor& dtable, ScatterOrder order = ScatterOrder::any,
                        Loc at = std::source_location::current());

}  // namespace tegula
