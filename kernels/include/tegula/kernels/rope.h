#pragma once
#include <cstdint>
#include <source_location>

#include "tegula/location.h"
#include "tegula/stream.h"
#include "tegula/tensor.h"

/// Rotary position embedding, forward and backward. Memory-bound: each element is read and written
/// once.
namespace tegula::kernels {

/// Elements of a head that are rotated together.
enum class RopePairs : std::uint8_t {
  half_split,   ///< i and i + dim / 2 (GPT-NeoX, Llama as in Hugging Face)
  interleaved,  ///< 2 i and 2 i + 1 (Su et al. 2021; GPT-J)
};

/// Angles of the rotations.
struct RopeTables {
  Tensor cos, sin;  ///< f32 [positions, dim / 2]; dim is the number of rotated elements per head,
                    ///< at least 4
  Tensor positions = {};  ///< i32 [tokens], rows of the tables; undefined: token t uses row t
};

/// y = x with the first dim elements of each head rotated by the angles of the token, and the
/// others copied. x and y are bf16, f16 or f32 [tokens, heads, head dim] with any strides but a
/// contiguous head dim, and do not overlap; a position outside the tables rotates by 0. Throws
/// CompileError (T1661, T1662) for invalid arguments.
void rope(const Stream& stream, RopePairs pairs, const Tensor& x, const RopeTables& tables,
          const Tensor& y, Loc at = std::source_location::current());

/// Computes dx, the gradient of x, from dy, that of y: the rotation by the opposite angles.
void rope_backward(const Stream& stream, RopePairs pairs, const Tensor& dy,
                   const RopeTables& tables, const Tensor& dx,
                   Loc at = std::source_location::current());

}  // namespace tegula::kernels
