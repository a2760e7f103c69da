#include "codegen/lower/repeated_registers.h"

#include <algorithm>

namespace tegula::codegen {

using namespace ir;

std::optional<RepeatedRegisters> repeated_registers(const Lowering& l, Value v) {
  const OpId def = l.to[v].def;
  if (!def || l.to[def].opcode != Opcode::Regs) return std::nullopt;
  const auto& operands = l.to[def].operands;
  const auto all = l.to[def].attrs.ints(AttrName::indices);
  RepeatedRegisters r{{operands.begin(), operands.end()}, Ints(all.begin(), all.end()), {}};
  std::ranges::sort(r.different);
  const auto repeated = std::ranges::unique(r.different);
  r.different.erase(repeated.begin(), repeated.end());
  for (const std::int64_t i : all)
    r.of_element.push_back(std::ranges::lower_bound(r.different, i) - r.different.begin());
  return r;
}

}  // namespace tegula::codegen
