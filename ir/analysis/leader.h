#pragma once
// Branches of the leader, the one thread of a program that issues its bulk copies.
#include "ir/kernel.h"

namespace tegula::ir {

/// True for the leader's flag, alone or joined with other conditions.
bool is_leader_condition(const Kernel& k, Value condition);

}  // namespace tegula::ir
