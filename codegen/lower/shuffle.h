#pragma once
// Warp shuffles of registers of any width: shfl.sync moves 32 bits, so other types are cast or
// repacked around it.
#include "codegen/lower/lowering.h"

namespace tegula::codegen {

/// Returns each register of another lane; `mode` and `lane` are those of the op shfl.
ir::Value shuffle(Lowering& l, ir::Value registers, ir::Value lane, const char* mode);

}  // namespace tegula::codegen
