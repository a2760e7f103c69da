#pragma once

namespace tegula::ir {

/// Depth limit of recursive walks along operands. Code that repeats an operand in every step has
/// exponentially many paths.
inline constexpr int kMaxWalkDepth = 12;

}  // namespace tegula::ir
