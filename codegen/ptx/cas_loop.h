#pragma once
// Atomic operations that the hardware does not have, as loops of compare and swap.
#include <string>
#include <string_view>

#include "tegula/dtype.h"

namespace tegula::codegen::ptx {

/// Operands of the loop, as the text names them: "#0".
struct CasOperands {
  std::string result;  ///< register of the element's class for the old value; empty: not wanted
  std::string address, value;
  std::string predicate;  ///< empty: always
};

/// The loop's text. `kind` as of atomic_rmw but inc; `order` is ".sem.scope". Elements of 8 bits
/// are a part of a word of 32, the rest of which stays; extremes of floats ignore NaN, as the
/// interpreter does. Empty for i1, and where fp8 would be computed with.
std::string cas_loop(std::string_view kind, DType d, std::string_view sem, std::string_view scope,
                     const CasOperands& operands);

}  // namespace tegula::codegen::ptx
