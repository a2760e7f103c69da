#pragma once
// Layout conversions within warps through shared memory: a matrix store and a wide load take the
// place of selects and shuffles, and what a warp writes only it reads, so that no warp waits for
// another one.
#include <cstdint>
#include <optional>

#include "ir/kernel.h"
#include "ir/layout/swizzle.h"
#include "ir/plan.h"

namespace tegula::codegen {

/// How this convert_layout goes, or nothing where it leaves its warp or the plan does not ask for
/// it.
std::optional<ir::SharedExchange> warp_exchange(const ir::Kernel& k, ir::OpId convert,
                                                const ir::Plan& plan);

/// Shared memory behind that of the kernel for the largest of them; 0 where there is no room.
std::int64_t warp_exchange_bytes(const ir::Kernel& k, const ir::Plan& plan);

}  // namespace tegula::codegen
