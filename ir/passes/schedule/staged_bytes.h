#pragma once
#include <cstdint>

#include "ir/kernel.h"
#include "ir/plan.h"

namespace tegula::ir {

/// Bytes of the largest staging buffer for TMA stores of a kernel in tile form, for all warpgroups
/// together; 0 if no store qualifies.
std::int64_t staged_bytes(const Kernel& k, const Plan& plan);

}  // namespace tegula::ir
