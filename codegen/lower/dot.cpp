// Lowering of matrix products: mma.sync over all instruction tiles of a warp in one op, or FMA over
// outer products.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/lower/lowering.h"
#include "ir/layout/linear_layout.h"
#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

namespace {

/// Register of thread 0 that holds each element it has; other threads have theirs in the same
/// registers.
class RegisterOf {
 public:
  explicit RegisterOf(const LinearLayout& layout) {
    for (int r = 0; r < layout.registers(); ++r) {
      const ir::Dims index = layout.apply({.reg = r});
      at_.try_emplace({index[0], index[1]}, r);
    }
  }
  bool has(int row, int col) const { return at_.contains({row, col}); }
  int operator()(int row, int col) const {
    const auto it = at_.find({row, col});
    if (it == at_.end())
      throw InternalError(fmt::format("dot: thread 0 does not hold element ({}, {})", row, col));
    return it->second;
  }
  /// Distinct rows (or columns) of instruction tiles of the given extent that thread 0 takes part
  /// in.
  std::vector<int> tiles(int dim, int extent) const {
    std::vector<int> list;
    for (const auto& [index, reg] : at_) {
      const int tile = (dim == 0 ? index.first : index.second) / extent;
      if (std::ranges::find(list, tile) == list.end()) list.push_back(tile);
    }
    std::ranges::sort(list);
    return list;
  }

 private:
  std::map<std::pair<int, int>, int> at_;
};

/// Where the fragments of one instruction lie for thread 0 (lane 0): PTX ISA, "Matrix Fragments for
/// mma.m16n8k16" and k8.
struct Fragment {
  int k;         ///< of the instruction
  int per_word;  ///< elements of a 32-bit register
  int k_second;  ///< k of the second half of the registers
};
constexpr Fragment kHalf{16, 2, 8}, kTf32{8, 1, 4};

std::vector<std::int64_t> a_order(const RegisterOf& at, const std::vector<int>& rows,
                                  const std::vector<int>& ks, Fragment f) {
  std::vector<std::int64_t> order;
  for (int m : rows)
    for (int k : ks)
      for (int j = 0; j < 4; ++j)
        for (int h = 0; h < f.per_word; ++h)
          order.push_back(at(m * 16 + 8 * (j & 1), k * f.k + f.k_second * (j >> 1) + h));
  return order;
}

std::vector<std::int64_t> b_order(const RegisterOf& at, const std::vector<int>& cols,
                                  const std::vector<int>& ks, Fragment f) {
  std::vector<std::int64_t> order;
  for (int n : cols)
    for (int k : ks)
      for (int j = 0; j < 2; ++j)
        for (int h = 0; h < f.per_word; ++h)
          order.push_back(at(k * f.k + f.k_second * j + h, n * 8));
  return order;
}

std::vector<std::int64_t> acc_order(const RegisterOf& at, const std::vector<int>& rows,
                                    const std::vector<int>& cols) {
  std::vector<std::int64_t> order;
  for (int m : rows)
    for (int n : cols)
      for (int j = 0; j < 4; ++j) order.push_back(at(m * 16 + 8 * (j >> 1), n * 8 + (j & 1)));
  return order;
}

Value words(Lowering& l, Value fragment) {
  const Type t = l.type(fragment);
  const Type packed = Type::vec({DType::i32, false}, t.count() * size_bits(t.dtype()) / 32);
  return l.b.op(size_bits(t.dtype()) == 32 ? Opcode::Bitcast : Opcode::Repack, {fragment}, packed);
}

void by_mma(Lowering& l, OpId op) {
  const OpData& d = l.from[op];
  const Type a = l.from.type(d.operands[0]), b = l.from.type(d.operands[1]),
             c = l.from.type(d.results[0]);
  const RegisterOf a_at(layout_of(a)), b_at(layout_of(b)), c_at(layout_of(c));
  const bool half = size_bits(a.dtype()) == 16;
  const Fragment f = half ? kHalf : kTf32;
  const auto rows = c_at.tiles(0, 16), cols = c_at.tiles(1, 8), ks = a_at.tiles(1, f.k);
  const auto order = acc_order(c_at, rows, cols);
  const char* type = half ? (a.dtype() == DType::bf16 ? "bf16" : "f16") : "tf32";
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

/// Outer products: for each k, every accumulator register takes its row of A and its column of B.
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

/// The accumulator of mma.sync: thread 0 holds columns 0 and 1, and rows 0 and 8.
bool is_mma(const LinearLayout& acc) {
  return acc.in_bits(In::Lane) == 5 && acc.basis(In::Lane, 0) == ir::Dims{0, 2} &&
         acc.basis(In::Lane, 2) == ir::Dims{1, 0} && acc.in_bits(In::Register) >= 2 &&
         acc.basis(In::Register, 0) == ir::Dims{0, 1} &&
         acc.basis(In::Register, 1) == ir::Dims{8, 0};
}

}  // namespace

void lower_Dot(Lowering& l, OpId op) {
  if (is_mma(layout_of(l.from.type(l.from[op].results[0]))))
    by_mma(l, op);
  else
    by_fma(l, op);
}

}  // namespace tegula::codegen
