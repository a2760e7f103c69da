#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Embedding lookup, and the gradient of its table.
namespace tegula::kernels {

/// y = table[ids]: y [tokens, columns] and table [rows, columns] are bf16, f16 or f32, ids i32
/// [tokens]. Ids outside the table, such as -1 for padding, give zeros. Memory-bound. Throws
/// CompileError (T1661, T1662) for invalid arguments.
void embedding(const Stream& stream, const Tensor& table, const Tensor& ids, const Tensor& y,
               Loc at = std::source_location::current());

/// Order in which the gradients of tokens are added to a row of the table.
enum class ScatterOrder : std::uint8_t {
  any,     ///< arbitrary (atomics): last bits may differ between calls
  tokens,  ///< order of the tokens: bitwise reproducible; slower if a few ids are frequent
};

/// dtable[ids] += dy: dtable is f32 [rows, columns], dy is bf16, f16 or f32 [tokens, columns]. Ids
/// outside the table are skipped. Gradients are added to the contents of dtable.
void embedding_backward(const Stream& stream, const Tensor& dy, const Tensor& ids,
                        const Tensor& dtable, ScatterOrder order = ScatterOrder::any,
                        Loc at = std::source_location::current());

}  // namespace tegula::kernels
