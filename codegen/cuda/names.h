#pragma once
// C++ names that are free: neither keywords, nor CUDA's own, nor given before.
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ir/kernel.h"

namespace tegula::codegen::cuda {

class Names {
 public:
  Names();
  /// `wanted` made an identifier, with a number behind it if it is taken.
  std::string fresh(std::string_view wanted);

 private:
  std::unordered_map<std::string, int> taken_;
};

/// A readable name for the value: from the op's label, its use, the op that made it, or its type.
std::string name_hint(const ir::Kernel& kernel, ir::Value v, std::span<const ir::OpId> users);

}  // namespace tegula::codegen::cuda
