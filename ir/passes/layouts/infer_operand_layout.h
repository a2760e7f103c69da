#pragma once
// Propagation of layouts from results to operands.
#include "ir/kernel.h"

namespace tegula::ir {

class LinearLayout;

/// Returns the layout in which an op that moves no data between threads takes the operand, a tile,
/// if its result has layout `wanted`. Elementwise ops take `wanted` itself.
const LinearLayout* infer_operand_layout(const Kernel& k, const OpData& d, Value operand,
                                         const LinearLayout& wanted);
/// Returns the layout of a reshape's operand in which each thread holds the elements that it needs
/// for the result; null if there is none, so that the elements change threads.
const LinearLayout* layout_before_reshape(Type operand, const LinearLayout& wanted);

}  // namespace tegula::ir
