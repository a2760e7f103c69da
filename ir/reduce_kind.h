#pragma once
// The built-in folds (attr kind of reduce and scan): the op that combines and its neutral element.
#include <string_view>

#include "ir/builder.h"

namespace tegula::ir {

/// Returns true for ops whose region is a function of scalars that is applied to pairs of elements.
/// Passes do not treat that region as they treat loops and branches.
constexpr bool is_fold_by_function(Opcode o) {
  return o == Opcode::ReduceWith || o == Opcode::ScanWith;
}

struct ReduceKind {
  std::string_view name;
  Opcode op;
  /// Returns the neutral element of the type.
  AttrValue (*neutral)(DType);

  /// Returns the neutral element as a scalar constant of the type.
  Value identity(Builder& b, DType type) const;
  /// Returns true if the value is a constant, all of whose elements are the neutral element.
  bool is_identity(const Kernel& k, Value v) const;
};

/// Returns the row of a kind. Throws InternalError for an unknown name.
const ReduceKind& reduce_kind(std::string_view name);

}  // namespace tegula::ir
