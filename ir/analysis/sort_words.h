#pragma once
// Sorts whose elements are one word each.
#include <cstdint>

#include "ir/kernel.h"

namespace tegula::ir {

enum class SortWord : std::uint8_t {
  None,         ///< a key, and an index that orders equal keys
  KeyAndIndex,  ///< both packed in 32 bits
  Key,          ///< the key only: equal keys are identical, and their positions are not used
};

/// Returns the word format of a sort's elements. `extent`: padded number of elements along the
/// axis.
SortWord sort_word(const Kernel& k, const OpData& sort, std::int64_t extent);

/// Number of positions that a packed index can represent.
inline constexpr std::int64_t kPackedPlaces = std::int64_t{1} << 15;

}  // namespace tegula::ir
