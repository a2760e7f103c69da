#pragma once
// What a score function asks of registers.
#include "tegula/kernels/scores.h"

namespace tegula {

struct ScoreCost {
  /// The function looks at the key's position: what a block begins with stays in registers.
  bool of_position = false;
  /// It needs registers of its own for each element of a block: it reads a tensor at the key's
  /// position, or computes a function of many steps there.
  bool of_element = false;
  /// That, but as a function of the distance of key and query alone, which has few values in a
  /// block where rows are positions one behind the other.
  bool of_distance = false;
  /// Bytes of a pair that TMA can bring as part of a tile, if those are all that `of_element`
  /// means.
  int box_bytes = 0;
  /// What makes weights of scores needs those of the row's other elements of the block.
  bool of_row = false;
  /// Scores of alike products are the larger the farther the key lies in front of the query, if
  /// that is known: not of what captured tensors or Scalars say.
  bool rises_away = false;
};
/// Traces the function on its own, over scalars; nothing where it cannot be.
ScoreCost score_cost(const Score& score);

}  // namespace tegula
