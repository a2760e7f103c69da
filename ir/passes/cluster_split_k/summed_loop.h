#pragma once
// Loops that only add: what each step gives does not depend on the steps before it, so that the
// steps may be dealt to several programs whose sums are added.
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/uses.h"

namespace tegula::ir {

/// Why a loop carries anything but sums, to which its steps, or those of loops in it, add terms;
/// empty if nothing else. Then `adding` gets the loops, none in another, whose steps do.
std::string_view why_not_summed(const Kernel& k, const Uses& uses, OpId loop,
                                std::vector<OpId>& adding);

/// Leaves program `rank` (i32) of `parts` its part of the steps, as even as the others' but for the
/// last ones; it may be none. The code is that of StepRange::part in the language.
void keep_part_of_steps(Kernel& k, OpId loop, Value rank, int parts);

}  // namespace tegula::ir
