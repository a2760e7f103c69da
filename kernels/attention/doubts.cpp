#include "kernels/attention/doubts.h"

#include "tegula/scratch.h"

namespace tegula {
namespace {

constexpr int kBeforeMarks = 2, kBits = 32, kGroups = (Scratch::kMarks - kBeforeMarks) * kBits;

Tile bit_of(const Tile& tile) { return full<u32>(1) << cast<u32>(tile % kBits); }

}  // namespace

Tile Doubts::word_of(const Tile& tile) const {
  return words_ + (tile % kGroups / kBits + kBeforeMarks);
}

void Doubts::mark(const Tile& tile, const Tile& doubtful) const {
  const Tile rows = full<i32>(0, doubtful.shape()[0]);
  atomic_or(word_of(tile) + rows, bit_of(tile), doubtful);
  // Both are bitwise ors: operations that commute need no barrier between neighbouring tiles.
  atomic_or(words_ + rows, full<u32>(1u), doubtful);
}

Tile Doubts::any() const { return load(words_) != std::uint32_t{0}; }
Tile Doubts::is_marked(const Tile& tile) const {
  return (load(word_of(tile)) & bit_of(tile)) != std::uint32_t{0};
}

void Doubts::leave(const Tile& programs) const {
  if_(last_arriver(words_ + 1, programs),
      [&] { store(words_ + arange(Scratch::kMarks), full<u32>(0u, Scratch::kMarks)); });
}

}  // namespace tegula
