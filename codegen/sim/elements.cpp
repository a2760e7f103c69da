#include "codegen/sim/elements.h"

#include <cstring>

#include "ir/eval/cell.h"

namespace tegula::sim {

using ir::Cell;

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

}  // namespace tegula::sim
