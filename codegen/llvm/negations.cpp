#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "codegen/llvm/module.h"
#include "codegen/ptx/instructions.h"
#include "tegula/error.h"

namespace tegula::codegen::llvm_backend {
namespace {

struct Negation {
  std::string_view start;  ///< start of LLVM's line
  DType type;
};
constexpr std::array kNegations{Negation{"\tneg.s16 \t", DType::i16},
                                Negation{"\tneg.s32 \t", DType::i32}};

/// Rewrites the line `neg.s32 %r2, %r1;`; `operands` is the text after the mnemonic.
std::string rewritten(const Negation& n, std::string_view operands) {
  const std::size_t comma = operands.find(", "), end = operands.find(';');
  if (comma == operands.npos || end == operands.npos || end < comma)
    throw InternalError(fmt::format("LLVM emitter: no negation: {}", operands));
  return "\t" + ptx::render_ptx(ptx::int_neg(n.type),
                                {std::string(operands.substr(0, comma)),
                                 std::string(operands.substr(comma + 2, end - comma - 2))});
}

}  // namespace

std::string with_safe_negations(std::string_view ptx) {
  std::string out;
  out.reserve(ptx.size());
  while (!ptx.empty()) {
    const std::size_t end = std::min(ptx.find('\n'), ptx.size() - 1) + 1;
    const std::string_view line = ptx.substr(0, end);
    ptx.remove_prefix(end);
    const auto* n = std::ranges::find_if(
        kNegations, [&](const Negation& x) { return line.starts_with(x.start); });
    if (n == kNegations.end())
      out += line;
    else
      out += rewritten(*n, line.substr(n->start.size())) + "\n";
  }
  return out;
}

}  // namespace tegula::codegen::llvm_backend
