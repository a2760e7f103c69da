#pragma once
// Tables by op where most ops have no entry: a row for each that has one.
#include <array>
#include <cstddef>

#include "ir/op.h"

namespace tegula::ir {

template <class T>
struct OpRow {
  Opcode op;
  T entry;
};

/// The entry of every op, T{} (null) of one without a row.
template <class T, std::size_t N>
constexpr std::array<T, kOpCount> op_table(const OpRow<T> (&rows)[N]) {
  std::array<T, kOpCount> table{};
  for (const OpRow<T>& row : rows) table[static_cast<std::size_t>(row.op)] = row.entry;
  return table;
}

}  // namespace tegula::ir
