#pragma once
// Lines of tiles and conditions on their elements, as passes build them.
#include "ir/builder.h"

namespace tegula::ir {

/// Returns the conjunction of two conditions, the first of which may be null.
inline Value both(Builder& b, Value all, Value one) {
  return all ? b.op(Opcode::And, {all, one}) : one;
}

/// Returns the tile 0, 1, .. extent - 1.
inline Value index_line(Builder& b, DType dtype, std::int64_t extent) {
  const Type type = Type::tile({dtype, false}, std::span(&extent, 1));
  return b.op(Opcode::Arange, {}, type, {{AttrName::start, 0}});
}

/// Returns a tile of `shape` in which every line along `dim` is `line`.
inline Value repeated(Builder& b, Value line, int dim, std::span<const std::int64_t> shape) {
  const Type type = Type::tile(b.kernel().type(line).elem(), shape);
  for (int d = 0; d < type.rank(); ++d)
    if (d != dim) line = b.op(Opcode::ExpandDims, {line}, {{AttrName::axis, d}});
  return type.rank() == 1 ? line : b.op(Opcode::Broadcast, {line}, type);
}

}  // namespace tegula::ir
