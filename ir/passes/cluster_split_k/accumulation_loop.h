#pragma once
// Loops that only accumulate: the result of an iteration does not depend on earlier ones, so that
// the iterations may be divided over several CTAs whose accumulators are added.
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/uses.h"

namespace tegula::ir {

/// Why a loop carries anything but accumulators, to which its iterations, or those of nested loops,
/// add terms; empty if nothing else. Then `accumulation_loops` receives the loops, none nested in
/// another, that add them.
std::string_view why_not_accumulation(const Kernel& k, const Uses& uses, OpId loop,
                                      std::vector<OpId>& accumulation_loops);

/// Leaves program `rank` (i32) of `parts` its slice of the iterations, equal to the others' except
/// for the last ones; it may be empty. The code is that of LoopRange::part in the language.
void keep_k_slice(Kernel& k, OpId loop, Value rank, int parts);

}  // namespace tegula::ir
