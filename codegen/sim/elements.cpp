#include "codegen/sim/elements.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "ir/eval/eval.h"
#include "tegula/error.h"

namespace tegula::sim {

using ir::Cell;

namespace {

ir::Opcode atomic_opcode(std::string_view kind) {
  using ir::Opcode;
  static constexpr std::pair<std::string_view, Opcode> kOps[] = {
      {"add", Opcode::Add}, {"max", Opcode::Max}, {"min", Opcode::Min},
      {"and", Opcode::And}, {"or", Opcode::Or},   {"xor", Opcode::Xor}};
  for (const auto& [name, opcode] : kOps)
    if (name == kind) return opcode;
  throw CompileError(
      Diagnostic{"", fmt::format("sim: unknown atomic kind '{}'", kind), {}, {}, ""});
}

}  // namespace

int element_bytes(ir::Elem e) { return e.pointer ? 8 : size_bytes(e.dtype); }

Cell load_cell(const std::uint8_t* p, ir::Elem e) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, p, static_cast<std::size_t>(element_bytes(e)));
  if (e.pointer) return Cell{static_cast<std::int64_t>(bits)};
  return ir::from_bits(bits, e.dtype);
}

void store_cell(std::uint8_t* p, Cell c, ir::Elem e) {
  const std::uint64_t bits = e.pointer ? static_cast<std::uint64_t>(c.i) : ir::to_bits(c, e.dtype);
  std::memcpy(p, &bits, static_cast<std::size_t>(element_bytes(e)));
}

Cell combine(std::string_view kind, Cell old, Cell value, ir::Elem e) {
  if (kind == "xchg") return value;
  if (kind == "inc") return Cell{.i = old.i >= value.i ? 0 : old.i + 1};
  static const ir::AttrList kNoAttrs;
  const ir::Elem in[2] = {e, e};
  const Cell* operands[2] = {&old, &value};
  const std::size_t strides[2] = {1, 1};
  Cell result{};
  ir::elementwise_fn(atomic_opcode(kind))({kNoAttrs, in, e, operands, strides, &result, 1});
  return result;
}

}  // namespace tegula::sim
