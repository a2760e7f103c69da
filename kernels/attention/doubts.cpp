#include "kernels/attention/doubts.h"

namespace tegula {
namespace {

/// What other kernels leave in scratch memory is no mark, but by an accident that costs time only.
constexpr std::uint32_t kMark = 0x7e90'1add;

}  // namespace

void Doubts::mark(const Tile& tile, const Tile& doubtful) const {
  // Rows of one tile write the same.
  const Tile rows = full<i32>(0, doubtful.shape()[0]);
  atomic_xchg(marks_ + (tile + rows), kMark, doubtful);
  atomic_xchg(count_ + rows, std::uint32_t{1}, doubtful);
}

Tile Doubts::any() const { return load(count_) != std::uint32_t{0}; }
Tile Doubts::is_marked(const Tile& tile) const { return load(marks_ + tile) == kMark; }
void Doubts::clear(const Tile& tile) const { store(marks_ + tile, std::uint32_t{0}); }

void Doubts::leave(const Tile& programs) const {
  if_(last_arriver(count_ + 1, programs), [&] { store(count_, std::uint32_t{0}); });
}

}  // namespace tegula
