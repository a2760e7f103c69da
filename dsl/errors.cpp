// Texts for the language's errors.
#include "dsl/errors.h"

#include <fmt/ranges.h>

namespace tegula::dsl {

const char* condition_hint(ir::Type type) {
  if (type.is_tile())
    return "one number decides: any(condition) or all(condition); element by element it is "
           "where(condition, a, b)";
  return "compare, e.g. x != 0";
}

std::string extents_text(std::span<const std::int64_t> extents) {
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

}  // namespace tegula::dsl
