#pragma once
// The facts on which library calls base their decisions may change while the process runs: an
// override of the environment, another driver, a sticky device error. A cached decision records its
// generation and is valid in that generation only.
#include <cstdint>

namespace tegula {

/// Returns the current generation; the first one is 1.
std::uint64_t generation();
/// Begins a new generation: decisions cached in earlier ones are made again when next needed.
void begin_generation();

}  // namespace tegula
