#pragma once
// Tables indexed by op in which most ops have no entry; only ops with an entry have a row.
#include <array>
#include <cstddef>

#include "ir/op.h"

namespace tegula::ir {

template <class T>
struct OpRow {
  Opcode op;
  T entry;
};

/// Returns a table of the entries of all ops; T{} (null) for ops without a row.
template <class T, std::size_t N>
constexpr std::array<T, kOpCount> op_table(const OpRow<T> (&rows)[N]) {
  std::array<T, kOpCount> table{};
  for (const OpRow<T>& row : rows) table[static_cast<std::size_t>(row.op)] = row.entry;
  return table;
}

}  // namespace tegula::ir
