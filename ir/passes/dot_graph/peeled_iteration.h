#pragma once
// Choices that are known where a loop's first iteration stands in front of it.
#include <unordered_set>

#include "ir/kernel.h"

namespace tegula::ir {

/// The ops `select(iv == lo, a, b)` of the loop's body: the first iteration takes a, all others b.
std::unordered_set<OpId> first_iteration_choices(const Kernel& k, OpId loop);

}  // namespace tegula::ir
