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

/// Throws T1407: what was `asked`, at a line of the kernel's author or elsewhere, breaks the rule.
/// `plan`: with the other fields as they were chosen.
[[noreturn]] void refuse_plan(const Kernel& k, const std::string& asked, const std::string& rule,
                              Loc asked_at, const Plan* plan = nullptr);
/// The same of what was asked of this plan, or, if nothing was, of the plan itself.
[[noreturn]] void refuse_plan(const Kernel& k, const Plan& plan, const PlanRequest& asked,
                              const std::string& rule);

}  // namespace tegula::ir
