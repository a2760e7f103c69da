#pragma once
// Sorts whose elements travel as one word each.
#include <cstdint>

#include "ir/kernel.h"

namespace tegula::ir {

enum class SortWord : std::uint8_t {
  None,         ///< a key, and an index that decides between equal ones
  KeyAndIndex,  ///< both in 32 bits
  Key,          ///< equal keys are alike, and nobody asks where they stood
};

/// How the elements of a sort travel; `extent`: how many there are along the axis, with padding.
SortWord sort_word(const Kernel& k, const OpData& sort, std::int64_t extent);

/// Places that a packed index can name.
inline constexpr std::int64_t kPackedPlaces = std::int64_t{1} << 15;

}  // namespace tegula::ir
