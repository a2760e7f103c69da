#pragma once
// Work of any kernel, counted in its traced tile form with a plan.
#include <span>

#include "autotune/cost/work.h"
#include "dsl/signature.h"
#include "ir/kernel.h"
#include "ir/plan.h"

namespace tegula::autotune {

/// Returns the work of a call with these run-time arguments. `kernel` is in tile form, after the
/// pass `plan` has chosen `plan`. Trip counts that depend on a program's number are those of the
/// middle program; trip counts that depend on memory are estimated.
Work work_of(const ir::Kernel& kernel, const ir::Plan& plan, std::span<const dsl::HostArg> args);

}  // namespace tegula::autotune
