#pragma once
// Tables of call plans: a small one per thread, which a repeated call reads without writing to
// memory that threads share, and one for the process, which is searched after a miss.
#include <cstddef>
#include <cstdint>
#include <memory>

#include "dsl/call_plan.h"
#include "dsl/plan_key.h"

namespace tegula::dsl {

/// Returns the plan of this key that the thread has run recently, else null. It lives until the
/// thread calls plan_of_process() or keep_plan().
const CallPlan* plan_of_thread(const PlanKey& key);
/// Returns the process's plan of this key, else null; the thread's table keeps it.
const CallPlan* plan_of_process(const PlanKey& key);
/// Adds a plan that was just built, and returns it. If another thread has already added a plan of
/// this key, returns that one.
const CallPlan* keep_plan(std::shared_ptr<const CallPlan> plan);

/// Discards the plans of a callable: those whose key begins with this word.
void forget_plans(std::uint64_t callable);

/// Limit on the number of plans of the process.
inline constexpr std::size_t kMaxPlans = 4096;
std::size_t number_of_plans();

}  // namespace tegula::dsl
