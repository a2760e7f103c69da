#pragma once
// Loops that only add: what each step gives does not depend on the steps before it, so that the
// steps may be dealt to several programs whose sums are added.
#include <string_view>

#include "ir/builder.h"
#include "ir/uses.h"

namespace tegula::ir {

/// Operands of a `for` before its carries, and arguments of its body before them.
inline constexpr std::size_t kFirstInit = 3, kFirstCarry = 1;

/// Why the loop carries anything but sums, to which its steps add terms; empty if nothing else.
std::string_view why_not_summed(const Kernel& k, const Uses& uses, OpId loop);

/// Leaves program `rank` (i32) of `parts` its part of the steps, as even as the others' but for the
/// last ones; it may be none. The code is that of StepRange::part in the language.
void keep_part_of_steps(Kernel& k, OpId loop, Value rank, int parts);

}  // namespace tegula::ir
