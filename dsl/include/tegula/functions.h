#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "tegula/value.h"

/// Lambdas that are arguments of a kernel, and what tracing one on its own tells.
namespace tegula {

/// True where the query at position q sees the key at position kv. Arguments are traced integers:
/// batch entry, head, positions.
using Mask = std::function<Tile(Tile b, Tile h, Tile q, Tile kv)>;

/// New score from the score s (f32, scaled). Further arguments are traced integers: batch entry,
/// head, positions of query and key.
using Score = std::function<Tile(Tile s, Tile b, Tile h, Tile q, Tile kv)>;

/// What a score function asks of registers.
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

/// A score function that gives -inf for some pairs, as a mask and a score.
struct SplitScore {
  Mask is_visible;
  Score score;  ///< none: the score as it came
};

class TracedFunction;

/// A score function, traced once over scalars. One that cannot be costs nothing and is not split:
/// what is wrong with it, the kernel's own trace says.
class ScoreFunction {
 public:
  explicit ScoreFunction(Score score);

  ScoreCost cost() const;
  /// The parts of a score of `where(condition, x, -INFINITY)`, whose condition looks at positions
  /// and tables but not at the score; nothing where there is no such condition.
  std::optional<SplitScore> split() const;

 private:
  Score score_;
  std::shared_ptr<const TracedFunction> traced_;
};

}  // namespace tegula
