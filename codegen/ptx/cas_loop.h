#pragma once
// Atomic operations that the hardware lacks, as compare-and-swap loops.
#include <string>
#include <string_view>

#include "tegula/dtype.h"

namespace tegula::codegen::ptx {

/// Operands of the loop, as named in the text: "#0".
struct CasOperands {
  std::string result;  ///< register of the element's class for the old value; empty: unused
  std::string address, value;
  std::string predicate;  ///< empty: always
};

/// Returns the text of the loop. `kind` is that of atomic_rmw except inc. An 8-bit element is part
/// of a 32-bit word whose other bytes are preserved; min and max of floats ignore NaN, as the
/// interpreter does. Empty for i1, and for arithmetic on fp8.
std::string cas_loop(std::string_view kind, DType d, std::string_view sem, std::string_view scope,
                     const CasOperands& operands);

}  // namespace tegula::codegen::ptx
