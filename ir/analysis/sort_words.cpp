#include "ir/analysis/sort_words.h"

#include "ir/uses.h"

namespace tegula::ir {

SortWord sort_word(const Kernel& k, const OpData& sort, std::int64_t extent) {
  const DType dtype = k.type(sort.operands[0]).dtype();
  if (size_bits(dtype) <= 16 && dtype != DType::f16 && extent <= kPackedPlaces)
    return SortWord::KeyAndIndex;
  if (!is_float(dtype) && size_bits(dtype) == 32 && !is_used(k, sort.results[1]))
    return SortWord::Key;
  return SortWord::None;
}

}  // namespace tegula::ir
