#pragma once
// Unique C++ names: neither keywords, nor names of CUDA, nor names returned before.
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ir/kernel.h"

namespace tegula::codegen::cuda {

class Names {
 public:
  Names();
  /// Returns `wanted` as an identifier, with a number appended if it is taken.
  std::string fresh(std::string_view wanted);

 private:
  std::unordered_map<std::string, int> taken_;
};

/// Returns a readable name for the value: from the op's label, its use, its defining op, or its
/// type.
std::string name_hint(const ir::Kernel& kernel, ir::Value v, std::span<const ir::OpId> users);

}  // namespace tegula::codegen::cuda
