#include "kernels/moe/expert_tiles.h"

namespace tegula::experts {

ExpertTiles::Place ExpertTiles::at(const Tile& number) const {
  // The last expert whose first tile has this number or a smaller one has the tile: those without
  // rows stand in front of it.
  const Tile wanted = cast<i32>(number);
  Tile expert = full<i32>(0);
  for (int step = static_cast<int>(std::bit_ceil(static_cast<unsigned>(experts_)) / 2); step > 0;
       step /= 2) {
    const Tile next = expert + step;
    expert = where(next < experts_ && first_tile(min(next, experts_ - 1)) <= wanted, next, expert);
  }
  // The checker of rings, which knows no memory, shall see a tile of an expert.
  const Tile tile = max(wanted - first_tile(expert), Tile(0));
  assume(expert >= 0), assume(expert < experts_);
  const Tile begin = fill_absent(segments_.offsets(expert), 0),
             end = fill_absent(segments_.offsets(expert + 1), 0);
  return {expert, slice(begin + tile * rows_, rows_), end};
}

}  // namespace tegula::experts
