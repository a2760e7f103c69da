#pragma once
// Elements as the bits that memory and packed registers hold.
#include <string>

#include "codegen/cuda/emitter.h"

namespace tegula::codegen::cuda {

/// Bits an element takes in memory: 64 for a pointer, 8 for i1.
inline int element_bits(ir::Elem e) { return e.pointer ? 64 : 8 * size_bytes(e.dtype); }

/// "u16", "u32", "u64" (and "u8")
std::string word_type(Emitter& e, int bits);
/// An unsigned C++ expression of the element's bits, nothing above them.
std::string to_bits(Emitter& e, ir::Elem elem, const std::string& x);
/// The element whose bits are the low ones of `word`.
std::string from_bits(Emitter& e, ir::Elem elem, const std::string& word);
/// Breaks a long asm statement into lines at blanks, a string into adjacent ones.
std::string wrapped(const std::string& statement);

}  // namespace tegula::codegen::cuda
