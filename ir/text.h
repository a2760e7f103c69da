#pragma once
// The text form of the IR: print and parse are exact inverses, locations included.
//
//   kernel @gemm simt target(sm_90a) threads(384) smem(196608) cluster(1) min_ctas_per_sm(1)
//       (%a: tmap [arg = 0, component = "map"], %n: i32 [arg = 1, component = "value"]) {
//     launch { %g = const [value = 132] : i32   yield %g, %g, %g }
//     %c = const [value = 3] : i32                                ; a comment
//     %s = add %c, %n : i32 loc("k.cpp":61:20)
//     %r0, %r1 = for %c, %n, %c, %x, %y : f32, i32 { (%i: i32, %p: f32, %q: i32)
//       yield %p, %i
//     }
//     if %cond { ... } { ... }                                    ; regions follow the types
//   }
//
// op      := [results "="] mnemonic [operands] [attrs] [":" types] regions [loc]
// attrs   := "[" name "=" (int | float | inf | -inf | nan | "string" | "[" ints "]") ", " ... "]"
// region  := "{" ["(" args ")"] ops "}"
// Result types may be left out where the op's row infers them; they are always printed.
#include <string>
#include <string_view>

#include "ir/kernel.h"

namespace tegula::ir {

struct PrintOptions {
  bool locations = true;
};

std::string print(const Kernel& kernel, PrintOptions options = {});
/// Returns one op on one line (regions elided), for messages.
std::string print_op(const Kernel& kernel, OpId op);
/// Parses a kernel. Throws CompileError with `file_name`:line of the text.
Kernel parse(std::string_view text, std::string_view file_name = "<text>");

}  // namespace tegula::ir
