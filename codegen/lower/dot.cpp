// Lowering of matrix products: mma.sync over all instruction tiles of a warp in one op, or FMA over
// outer products.
#include <fmt/format.h>

#include "codegen/lower/fragments.h"
#include "ir/layout/linear_layout.h"
#include "ir/matrix_type.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

namespace {

void by_mma(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type a = l.from.type(d.operands[0]), b = l.from.type(d.operands[1]),
             c = l.from.type(d.results[0]);
  const RegisterOf a_at(layout_of(a)), b_at(layout_of(b)), c_at(layout_of(c));
  const std::string_view type = matrix_type(l.from, d)->name;
  const Fragment f(size_bits(a.dtype()));
  const auto rows = c_at.tiles(0, 16), cols = c_at.tiles(1, 8), ks = a_at.tiles(1, f.k);
  const auto order = acc_order(c_at, rows, cols);
  const Value av = words(l, l.regs(l.get(d.operands[0]), a_order(a_at, rows, ks, f)));
  const Value bv = words(l, l.regs(l.get(d.operands[1]), b_order(b_at, cols, ks, f)));
  const Value acc = l.regs(l.get(d.operands[2]), order);
  const auto n = [](const std::vector<int>& v) { return static_cast<std::int64_t>(v.size()); };
  const Value result = l.b.op(Opcode::Mma, {av, bv, acc},
                              {{AttrName::shape, Ints{16, 8, f.k}},
                               {AttrName::a_type, type},
                               {AttrName::b_type, type},
                               {AttrName::tiles, Ints{n(rows), n(cols), n(ks)}}});
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  l.set(d.results[0], l.regs(result, back));
}

/// Lowers a dot to outer products: for each k, each accumulator register adds the product of an
/// element of its row of A and one of its column of B.
void by_fma(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type c = l.from.type(d.results[0]);
  const LinearLayout& layout = layout_of(c);
  const RegisterOf a_at(layout_of(l.from.type(d.operands[0]))),
      b_at(layout_of(l.from.type(d.operands[1])));
  const int k_extent = static_cast<int>(l.from.type(d.operands[0]).shape()[1]);
  const Value a = l.b.cast(l.get(d.operands[0]), c.dtype()),
              b = l.b.cast(l.get(d.operands[1]), c.dtype());
  Value acc = l.get(d.operands[2]);
  for (int k = 0; k < k_extent; ++k) {
    std::vector<std::int64_t> from_a, from_b;
    for (int r = 0; r < layout.registers(); ++r) {
      const ir::Dims index = layout.apply({.reg = r});
      from_a.push_back(a_at(index[0], k));
      from_b.push_back(b_at(k, index[1]));
    }
    acc = l.b.op(Opcode::Fma, {l.regs(a, from_a), l.regs(b, from_b), acc});
  }
  l.set(d.results[0], acc);
}

/// Returns true for the accumulator layout of mma.sync, in which thread 0 holds columns 0 and 1 of
/// rows 0 and 8.
bool is_mma(const LinearLayout& acc) {
  return acc.in_bits(HwDim::Lane) == 5 && acc.basis(HwDim::Lane, 0) == ir::Dims{0, 2} &&
         acc.basis(HwDim::Lane, 2) == ir::Dims{1, 0} && acc.in_bits(HwDim::Register) >= 2 &&
         acc.basis(HwDim::Register, 0) == ir::Dims{0, 1} &&
         acc.basis(HwDim::Register, 1) == ir::Dims{8, 0};
}

}  // namespace

void lower_Dot(Lowering& l, OpId op) {
  if (is_mma(layout_of(l.from.type(l.from[op].results[0]))))
    by_mma(l, op);
  else
    by_fma(l, op);
}

}  // namespace tegula::codegen
