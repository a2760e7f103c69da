#pragma once
// The passes of the code generator: machine form to simt form.
#include "ir/pipeline.h"

namespace tegula::codegen {

/// Before: machine form, shared memory allocated. After: simt form, parameters flattened (attrs
/// arg, part, axis).
bool lower_simt(ir::Kernel& kernel, ir::PassContext& context);

/// Before and after: simt form. Merges registers that shifts and masks make equal.
bool merge_equal_registers(ir::Kernel& kernel, ir::PassContext& context);

}  // namespace tegula::codegen
