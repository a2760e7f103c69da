#include "ir/analysis/sort_words.h"

#include <bit>

#include "ir/uses.h"

namespace tegula::ir {
namespace {

bool packs_index(DType dtype, std::int64_t extent) {
  return size_bits(dtype) <= 16 && dtype != DType::f16 && extent <= kSortedPlaces;
}

std::int64_t padded_extent(const Kernel& k, const OpData& sort) {
  const auto axis = static_cast<std::size_t>(sort.attrs.i(AttrName::axis));
  return static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(k.type(sort.operands[0]).shape()[axis])));
}

}  // namespace

SortWord sort_word(const Kernel& k, const OpData& sort, std::int64_t extent) {
  const DType dtype = k.type(sort.operands[0]).dtype();
  if (packs_index(dtype, extent)) return SortWord::KeyAndIndex;
  const bool is_key = is_sorted_in_memory(k, sort) || (!is_float(dtype) && size_bits(dtype) == 32);
  return is_key && !is_used(k, sort.results[1]) ? SortWord::Key : SortWord::None;
}

bool is_sorted_in_memory(const Kernel& k, const OpData& sort) {
  // Keys of more registers, times their words, take ptxas 13.0 up to a minute for sm_80. A top-k
  // has fewer stages.
  constexpr std::int64_t kMaxWords = 2048, kMaxSelected = 8192;
  const DType dtype = k.type(sort.operands[0]).dtype();
  const std::int64_t extent = padded_extent(k, sort);
  const bool has_index = !packs_index(dtype, extent) &&
                         (is_float(dtype) || size_bits(dtype) != 32 || is_used(k, sort.results[1]));
  const std::int64_t words = (size_bits(dtype) == 64 ? 2 : 1) + (has_index ? 1 : 0);
  const bool is_top = 8 * sort.attrs.i(AttrName::count, extent) <= extent;
  return extent * words > (is_top ? kMaxSelected : kMaxWords);
}

}  // namespace tegula::ir
