#pragma once
#include <array>

#include "tegula/math.h"

/// Random numbers as pure functions of a seed and an offset: the same numbers on every device, in
/// every order, in a second launch. They are the words of Philox 4x32-10 (Salmon et al. 2011,
/// "Parallel random numbers: as easy as 1, 2, 3"), four per counter.
///
/// `seed` and `offset` are integers of any width, scalars or tiles, converted to u64; they are
/// broadcast against each other. Elements with equal seeds and offsets have equal numbers, so a
/// kernel gives each element a different offset, for instance the element's number in its tensor.
namespace tegula {

/// Returns the four words (u32) of a counter. Philox's counter is (counter, subsequence), lower
/// halves first; its key is the seed.
std::array<Tile, 4> philox(const Arg& seed, const Arg& counter, const Arg& subsequence = 0);

/// Uniform in [0, 1): an exact multiple of 2^-24 (f32), 2^-53 (f64), 2^-11 (f16) or 2^-8 (bf16).
/// f64 takes two words per number: word pair `offset % 2` of counter `offset / 2`; the other types
/// take word `offset % 4` of counter `offset / 4`.
template <Element T = f32>
Tile rand(const Arg& seed, const Arg& offset);
/// Does the same for a type known at run time of the host.
Tile rand(const Arg& seed, const Arg& offset, DType type);
/// Standard normal, f32, by the Box-Muller transform: words 0 and 1, or 2 and 3, of counter
/// `offset / 4`; cosine for even offsets, sine for odd ones. At most 6.77 in magnitude.
Tile randn(const Arg& seed, const Arg& offset);
/// Uniform integers in [low, high), of the common type of the bounds: i32, u32, i64 or u64. They
/// are the upper half of a product, so that probabilities differ by at most (high - low) / 2^32, or
/// (high - low) / 2^64 for 64 bits. An empty range gives `low`.
Tile randint(const Arg& seed, const Arg& offset, const Arg& low, const Arg& high);

/// Sets each element to 0 with probability `p`, else multiplies it by 1 / (1 - p): element i is
/// kept where rand(seed, offset) >= p. The backward is `dropout` of the gradient, with the same
/// numbers. Throws CompileError unless 0 <= p < 1.
Tile dropout(const Arg& x, double p, const Arg& seed, const Arg& offset);

template <Element T>
Tile rand(const Arg& seed, const Arg& offset) {
  return rand(seed, offset, dtype_of<T>);
}

}  // namespace tegula
