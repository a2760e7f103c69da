#pragma once
// Warp shuffles of registers of any width: shfl.sync moves 32 bits, so others are cast or repacked
// around it.
#include "codegen/lower/lowering.h"

namespace tegula::codegen {

/// Each register from another lane: `mode` and `lane` as in the op shfl.
ir::Value shuffle(Lowering& l, ir::Value registers, ir::Value lane, const char* mode);

}  // namespace tegula::codegen
