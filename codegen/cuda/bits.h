#pragma once
// Elements as the bits stored in memory and in packed registers.
#include <string>

#include "codegen/cuda/emitter.h"

namespace tegula::codegen::cuda {

/// Returns the number of bits of an element in memory: 64 for a pointer, 8 for i1.
inline int element_bits(ir::Elem e) { return e.pointer ? 64 : 8 * size_bytes(e.dtype); }

/// Returns the name of the unsigned type of `bits` bits, e.g. "u16".
std::string word_type(Emitter& e, int bits);
/// Returns an unsigned C++ expression of the element's bits, with zero upper bits.
std::string to_bits(Emitter& e, ir::Elem elem, const std::string& x);
/// Returns the element whose bits are the low bits of `word`.
std::string from_bits(Emitter& e, ir::Elem elem, const std::string& word);
/// Breaks a long asm statement into lines at spaces, and its string into adjacent strings.
std::string wrapped(const std::string& statement);

}  // namespace tegula::codegen::cuda
