#pragma once
// The built-in folds (attr kind of reduce and scan): the op that combines and its neutral element.
#include <string_view>

#include "ir/builder.h"

namespace tegula::ir {

/// Ops whose region is a function of scalars that runs for pairs of elements: no pass looks into it
/// as into a loop or a branch.
constexpr bool is_fold_by_function(Opcode o) {
  return o == Opcode::ReduceWith || o == Opcode::ScanWith;
}

struct ReduceKind {
  std::string_view name;
  Opcode op;
  /// A scalar constant of the type.
  Value (*identity)(Builder&, DType);
};

/// Throws InternalError for a name that is no kind.
const ReduceKind& reduce_kind(std::string_view name);

}  // namespace tegula::ir
