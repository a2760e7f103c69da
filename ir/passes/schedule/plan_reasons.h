#pragma once
// Why a plan is what it is, in words.
#include <string>
#include <vector>

#include "ir/passes/schedule/kernel_summary.h"
#include "ir/plan_request.h"

namespace tegula::ir {

/// "wgmma=0: the reason", of a kernel whose plan could not have it.
std::string wgmma_missed_remark(const Kernel& k);

/// "field=value: the reason", of the fields of a plan that was chosen for the kernel.
std::vector<std::string> plan_reasons(const Plan& plan, const Kernel& k);

/// Throws T1407: the requested fields, or the whole plan if none were requested, break the rule.
[[noreturn]] void refuse_plan(const Kernel& k, const Plan& plan, const PlanRequest& asked,
                              const std::string& rule);

}  // namespace tegula::ir
