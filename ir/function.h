#pragma once
// A function of scalars that was traced on its own.
#include <vector>

#include "ir/kernel.h"

namespace tegula::ir {

/// `body` computes `result` from `arguments`, which are its first parameters; those behind them are
/// what the traced lambda captured.
struct Function {
  Kernel body{"function"};
  std::vector<Value> arguments;
  Value result;
};

}  // namespace tegula::ir
