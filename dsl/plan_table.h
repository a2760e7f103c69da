#pragma once
// Tables of call plans: a small one of each thread's own, which a repeated call reads without
// writing anything that threads share, behind it one of the process.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "dsl/call_plan.h"
#include "dsl/plan_key.h"

namespace tegula::dsl {

/// The plan of this key that the thread has run lately, else null. It lives until the thread asks
/// for another plan of plan_of_process() or keeps one.
const CallPlan* plan_of_thread(const PlanKey& key);
/// The process' plan of this key, else null; the thread keeps it.
const CallPlan* plan_of_process(const PlanKey& key);
/// Keeps a plan that was just built. Gives that of another thread that was faster, if there is one.
const CallPlan* keep_plan(std::shared_ptr<const CallPlan> plan);

/// Forgets the plans whose first word is this: those of a callable.
void forget_plans(std::uint64_t callable);

/// Plans of the process; at most kMaxPlans.
inline constexpr std::size_t kMaxPlans = 4096;
std::size_t number_of_plans();

}  // namespace tegula::dsl
