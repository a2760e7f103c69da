#pragma once
// The facts that decide calls of the library may change while the process runs: an override of the
// environment, another driver, a sticky device error. Decisions that were kept are of a generation,
// and count in it alone.
#include <cstdint>

namespace tegula {

/// The generation of now; 1 at first.
std::uint64_t generation();
/// Everything decided so far is decided again where it is wanted next.
void begin_generation();

}  // namespace tegula
