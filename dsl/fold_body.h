#pragma once
// The ops that the function given to reduce or scan may contain: one check for all devices.
#include "dsl/tracer.h"

namespace tegula::dsl {

/// Throws CompileError at the line of an op that the function of a fold cannot have: anything but
/// elementwise ops of scalars.
void check_fold_body(Tracer& t, std::string_view what, ir::RegionId body);

/// Puts the ops of both sides of a branch in front of it: what is elementwise may run whether or
/// not its result is chosen.
void flatten_branch(ir::Kernel& kernel, ir::OpId branch);

}  // namespace tegula::dsl
