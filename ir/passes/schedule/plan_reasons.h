#pragma once
// Explains the choices of a plan in text.
#include <string>
#include <vector>

#include "ir/passes/schedule/kernel_summary.h"
#include "ir/plan_request.h"

namespace tegula::ir {

/// Returns "wgmma=0: REASON" for a kernel whose plan cannot use wgmma.
std::string wgmma_missed_remark(const Kernel& k);

/// Returns "FIELD=VALUE: REASON" for fields of a plan that was chosen for the kernel.
std::vector<std::string> plan_reasons(const Plan& plan, const Kernel& k);

/// Throws T1407: the requested fields, or the whole plan if none were requested, break the rule.
[[noreturn]] void refuse_plan(const Kernel& k, const Plan& plan, const PlanRequest& requested,
                              const std::string& rule);

}  // namespace tegula::ir
