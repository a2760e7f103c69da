#pragma once
// Texts for the language's errors (support/errors.def).
#include <cstdint>
#include <span>
#include <string>

#include "ir/type.h"
#include "support/errors.h"

namespace tegula::dsl {

/// Returns a hint on how to turn a condition of that type into one i1.
const char* condition_hint(ir::Type type);

/// Returns the extents as "[128, 64]".
std::string extents_text(std::span<const std::int64_t> extents);

}  // namespace tegula::dsl
