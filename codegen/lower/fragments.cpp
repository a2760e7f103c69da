#include "codegen/lower/fragments.h"

#include <fmt/format.h>

#include <algorithm>

#include "tegula/error.h"

namespace tegula::codegen {

using namespace ir;

RegisterOf::RegisterOf(const LinearLayout& layout) {
  for (int r = 0; r < layout.registers(); ++r) {
    const ir::Dims index = layout.apply({.reg = r});
    at_.try_emplace({index[0], index[1]}, r);
  }
}

int RegisterOf::operator()(int row, int col) const {
  const auto it = at_.find({row, col});
  if (it == at_.end())
    throw InternalError(fmt::format("dot: thread 0 does not hold element ({}, {})", row, col));
  return it->second;
}

std::vector<int> RegisterOf::tiles(int dim, int extent) const {
  std::vector<int> list;
  for (const auto& [index, reg] : at_) {
    const int tile = (dim == 0 ? index.first : index.second) / extent;
    if (std::ranges::find(list, tile) == list.end()) list.push_back(tile);
  }
  std::ranges::sort(list);
  return list;
}

std::vector<std::int64_t> a_order(const RegisterOf& register_of, const std::vector<int>& rows,
                                  const std::vector<int>& ks, Fragment f) {
  std::vector<std::int64_t> order;
  for (int m : rows)
    for (int k : ks)
      for (int j = 0; j < 4; ++j)
        for (int h = 0; h < f.per_word; ++h)
          order.push_back(register_of(m * 16 + 8 * (j & 1), k * f.k + f.k_second * (j >> 1) + h));
  return order;
}

std::vector<std::int64_t> b_order(const RegisterOf& register_of, const std::vector<int>& cols,
                                  const std::vector<int>& ks, Fragment f) {
  std::vector<std::int64_t> order;
  for (int n : cols)
    for (int k : ks)
      for (int j = 0; j < 2; ++j)
        for (int h = 0; h < f.per_word; ++h)
          order.push_back(register_of(k * f.k + f.k_second * j + h, n * 8));
  return order;
}

std::vector<std::int64_t> acc_order(const RegisterOf& register_of, const std::vector<int>& rows,
                                    const std::vector<int>& cols) {
  std::vector<std::int64_t> order;
  for (int m : rows)
    for (int n : cols)
      for (int j = 0; j < 4; ++j)
        order.push_back(register_of(m * 16 + 8 * (j >> 1), n * 8 + (j & 1)));
  return order;
}

Value words(Lowering& l, Value fragment) {
  const Type t = l.type(fragment);
  const Type packed = Type::vec({DType::i32, false}, t.count() * size_bits(t.dtype()) / 32);
  return l.b.op(size_bits(t.dtype()) == 32 ? Opcode::Bitcast : Opcode::Repack, {fragment}, packed);
}

Value a_fragments(Lowering& l, Value machine_tile) {
  const Type type = l.from.type(machine_tile);
  const RegisterOf register_of(layout_of(type));
  const Fragment f(size_bits(type.dtype()));
  return words(l, l.regs(l.get(machine_tile), a_order(register_of, register_of.tiles(0, 16),
                                                      register_of.tiles(1, f.k), f)));
}

}  // namespace tegula::codegen
