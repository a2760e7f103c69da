#pragma once
// The ops that the function given to reduce, scan or map may contain: one check for all devices.
#include "dsl/tracer.h"

namespace tegula::dsl {

/// Throws CompileError at the line of an op that the function of a fold must not contain: anything
/// but elementwise ops on scalars.
void check_fold_body(Tracer& t, std::string_view what, ir::RegionId body);

/// Throws for an op that the function of a map must not contain: one that is neither elementwise
/// nor a loop.
void check_map_op(Tracer& t, ir::OpId op);

/// Moves the ops of both sides of a branch before it: elementwise ops may run even if their result
/// is not selected.
void flatten_branch(ir::Kernel& kernel, ir::OpId branch);

}  // namespace tegula::dsl
