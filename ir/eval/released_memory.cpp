#include "ir/eval/released_memory.h"

#include <algorithm>

namespace tegula::ir {
namespace {

bool is_unwritten(std::uintptr_t address, std::size_t bytes) {
  const auto* first = reinterpret_cast<const unsigned char*>(address);
  return std::all_of(first, first + bytes, [](unsigned char byte) { return byte == 0xff; });
}

}  // namespace

std::optional<std::uintptr_t> find_released(std::span<const ReleasedMemory> all,
                                            std::uintptr_t address, std::size_t bytes) {
  const std::uintptr_t end = address + bytes;
  auto r = std::ranges::upper_bound(all, address, {}, &ReleasedMemory::end);
  for (; r != all.end() && r->begin < end; ++r) {
    const std::size_t size = r->element_bytes;
    const std::uintptr_t skipped = std::max(address, r->begin) - r->begin;
    for (std::uintptr_t at = r->begin + skipped / size * size; at < std::min(end, r->end);
         at += size)
      if (is_unwritten(at, size)) return at;
  }
  return std::nullopt;
}

}  // namespace tegula::ir
