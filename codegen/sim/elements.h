#pragma once
// Elements of global and shared memory as values.
#include <cstdint>

#include "ir/eval/cell.h"
#include "ir/type.h"

namespace tegula::sim {

int element_bytes(ir::Elem e);
ir::Cell load_cell(const std::uint8_t* p, ir::Elem e);
void store_cell(std::uint8_t* p, ir::Cell c, ir::Elem e);

}  // namespace tegula::sim
