#pragma once
// Finds the op in which a test plants a fault, and moves ops to plant one.
#include <fmt/format.h>

#include <functional>
#include <stdexcept>
#include <vector>

#include "ir/kernel.h"
#include "ir/op.h"

namespace tegula::test {

using WantedOp = std::function<bool(const ir::OpData&)>;

/// The n-th wanted op of this kind in program order, from 0; throws where there is none.
inline ir::OpId nth_op(
    const ir::Kernel& k, ir::Opcode opcode, int n,
    const WantedOp& wanted = [](const ir::OpData&) { return true; }) {
  ir::OpId found;
  ir::walk(k, k.body(), [&](ir::OpId op) {
    if (k[op].opcode == opcode && wanted(k[op]) && n-- == 0) found = op;
  });
  if (!found)
    throw std::runtime_error(fmt::format("no {} to plant the fault in", ir::info(opcode).mnemonic));
  return found;
}

/// All ops of this kind, in program order.
inline std::vector<ir::OpId> all_ops(const ir::Kernel& k, ir::Opcode opcode) {
  return ir::ops_where(k, k.body(), [&](ir::OpId op) { return k[op].opcode == opcode; });
}
/// The first op of this kind from `from` on in its region; or none.
inline ir::OpId next_op(const ir::Kernel& k, ir::OpId from, ir::Opcode opcode) {
  while (from && k[from].opcode != opcode) from = k[from].next;
  return from;
}

inline void insert_after(ir::Kernel& k, ir::OpId where, ir::OpId op) {
  if (const ir::OpId next = k[where].next)
    k.insert_before(next, op);
  else
    k.append(k[where].parent, op);
}

}  // namespace tegula::test
