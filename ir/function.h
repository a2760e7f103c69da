#pragma once
// A function of scalars that was traced separately.
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// `body` computes `result` from `arguments`, which are its first parameters; the remaining
/// parameters are the values that the traced lambda captured.
struct Function {
  Kernel body{"function"};
  std::vector<Value> arguments;
  Value result;
};

}  // namespace tegula::ir
