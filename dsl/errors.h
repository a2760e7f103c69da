#pragma once
// Words of the language's errors (support/errors.def).
#include <cstdint>
#include <span>
#include <string>

#include "ir/type.h"
#include "support/errors.h"

namespace tegula::dsl {

/// How to make one i1 of a condition of that type.
const char* condition_hint(ir::Type type);

/// "[128, 64]"
std::string extents_text(std::span<const std::int64_t> extents);

}  // namespace tegula::dsl
