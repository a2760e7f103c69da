#pragma once
// Layouts followed against the flow of values.
#include "ir/kernel.h"

namespace tegula::ir {

class LinearLayout;

/// Layout in which an op that moves no data between threads takes the operand, a tile, where its
/// result is wanted in `wanted`. Elementwise ops take it as it is.
const LinearLayout* infer_operand_layout(const Kernel& k, const OpData& d, Value operand,
                                         const LinearLayout& wanted);
/// The layout in which each thread has a reshape's operand where it is to have the result; none
/// where no layout is, so that the elements change threads.
const LinearLayout* layout_before_reshape(Type operand, const LinearLayout& wanted);

}  // namespace tegula::ir
