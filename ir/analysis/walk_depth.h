#pragma once

namespace tegula::ir {

/// Depth at which a recursive walk along operands gives up: code that repeats an operand in every
/// step has exponentially many paths.
inline constexpr int kMaxWalkDepth = 12;

}  // namespace tegula::ir
