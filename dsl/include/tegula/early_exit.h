#pragma once
#include "tegula/value.h"

/// Leaving a loop or a program early.
namespace tegula {

/// In the body of `steps` or `while_`, not inside an if_: where the condition (a scalar i1) is
/// true, skips the rest of this iteration and all later ones; variables keep the values that they
/// have here. A loop with a break_if is a `while` for the compiler: its loads are not pipelined.
/// Throws CompileError elsewhere, and for a condition that is a tile.
void break_if(const Arg& condition);
/// In the body of the grid loop, not inside a loop or an if_: where the condition is true, skips
/// the rest of this program. Throws CompileError elsewhere, and for a condition that is a tile.
void exit_program_if(const Arg& condition);

}  // namespace tegula
