#include "kernels/attention/doubts.h"

#include "kernels/scratch.h"

namespace tegula {
namespace {

constexpr int kBeforeMarks = 2, kGroups = Scratch::kMarks - kBeforeMarks;

}  // namespace

Tile Doubts::mark_of(const Tile& tile) const { return words_ + (tile % kGroups + kBeforeMarks); }

void Doubts::mark(const Tile& tile, const Tile& doubtful) const {
  // Rows of one tile, and tiles of one group, write the same.
  const Tile rows = full<i32>(0, doubtful.shape()[0]);
  atomic_xchg(mark_of(tile) + rows, std::uint32_t{1}, doubtful);
  atomic_xchg(words_ + rows, std::uint32_t{1}, doubtful);
}

Tile Doubts::any() const { return load(words_) != std::uint32_t{0}; }
Tile Doubts::is_marked(const Tile& tile) const { return load(mark_of(tile)) != std::uint32_t{0}; }

void Doubts::leave(const Tile& programs) const {
  if_(last_arriver(words_ + 1, programs),
      [&] { store(words_ + arange(Scratch::kMarks), full<u32>(0u, Scratch::kMarks)); });
}

}  // namespace tegula
