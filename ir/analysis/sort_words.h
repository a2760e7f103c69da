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

/// Largest number of elements of a sort. An index has 15 bits; larger ones mark absent elements, so
/// that these follow a number with the same key.
inline constexpr std::int64_t kSortedPlaces = std::int64_t{1} << 15;

/// Returns true if lines are sorted in shared memory, in loops: the assembler would compile their
/// network of registers for many seconds.
bool is_sorted_in_memory(const Kernel& k, const OpData& sort);

}  // namespace tegula::ir
