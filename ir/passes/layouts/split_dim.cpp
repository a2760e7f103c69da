#include "ir/passes/layouts/split_dim.h"

namespace tegula::ir {

int dim_of_operand(const Kernel& k, const OpData& d, Value v, int dim) {
  const Type t = k.type(v);
  if (!t.is_tile()) return kNotSplit;
  using enum Opcode;
  if (d.opcode == ExpandDims) {
    const int axis = static_cast<int>(d.attrs.i(AttrName::axis));
    return dim > axis ? dim - 1 : dim == axis ? kNotSplit : dim;
  }
  if (d.opcode == Permute)
    return static_cast<int>(d.attrs.ints(AttrName::order)[static_cast<std::size_t>(dim)]);
  const auto i = static_cast<std::size_t>(dim);
  if (d.opcode == Broadcast && t.shape()[i] != k.type(d.results[0]).shape()[i]) return kNotSplit;
  return dim;
}

}  // namespace tegula::ir
