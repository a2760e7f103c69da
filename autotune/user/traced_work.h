#pragma once
// Work of any kernel, counted in its traced tile form with a plan.
#include <span>

#include "autotune/cost/work.h"
#include "dsl/signature.h"
#include "ir/kernel.h"
#include "ir/plan.h"
#include "ir/plan_request.h"

namespace tegula::autotune {

/// Runs the passes on a traced kernel up to the choice of a plan, which it returns. Throws
/// CompileError if a pass rejects the kernel.
ir::Plan plan_of(ir::Kernel& kernel, const ir::PlanRequest& planned = {});

/// Chooses the plan of a kernel again, which plan_of() has changed, with these preferred fields.
ir::Plan plan_again(ir::Kernel& kernel, const ir::PlanRequest& planned, const PlanPatch& preferred);

/// Returns the work of a call with these run-time arguments. `plan` is plan_of(kernel), which
/// has changed the kernel. Trip counts that depend on a program's number are those of the
/// middle program; trip counts that depend on memory are estimated.
Work work_of(const ir::Kernel& kernel, const ir::Plan& plan, std::span<const dsl::HostArg> args);

}  // namespace tegula::autotune
