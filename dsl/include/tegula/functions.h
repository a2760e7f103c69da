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

/// The cost of a score function in registers, found by its trace.
struct ScoreTraits {
  /// Whether the function reads the key's position: the start of a block then stays in registers.
  bool reads_kv_index = false;
  /// Whether it needs registers of its own for each element of a block: it reads a tensor at the
  /// key's position, or computes a long function there.
  bool has_per_element_state = false;
  /// Whether it depends on the distance of key and query alone, which has few values in a block if
  /// rows are consecutive positions.
  bool is_toeplitz = false;
  /// Bytes per pair that TMA can load as part of a tile, if these are all that
  /// `has_per_element_state` means.
  int tma_bytes_per_element = 0;
  /// Whether turning scores into weights needs the row's other elements of the block.
  bool needs_row_scan = false;
  /// Whether, for equal dot products, scores grow with the distance of the key in front of the
  /// query, if that is known: unknown for captured tensors and Scalars.
  bool grows_with_distance = false;
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

  ScoreTraits cost() const;
  /// The parts of a score of `where(condition, x, -INFINITY)`, whose condition looks at positions
  /// and tables but not at the score; nothing where there is no such condition.
  std::optional<SplitScore> split() const;

 private:
  Score score_;
  std::shared_ptr<const TracedFunction> traced_;
};

}  // namespace tegula
