#pragma once
// Elements of global and shared memory as values, and atomic operations on them.
#include <cstdint>
#include <string_view>

#include "ir/eval/cell.h"
#include "ir/type.h"

namespace tegula::sim {

int element_bytes(ir::Elem e);
ir::Cell load_cell(const std::uint8_t* p, ir::Elem e);
void store_cell(std::uint8_t* p, ir::Cell c, ir::Elem e);

/// What an atomic operation of this kind leaves of an element and a value.
ir::Cell combine(std::string_view kind, ir::Cell old, ir::Cell value, ir::Elem e);

}  // namespace tegula::sim
