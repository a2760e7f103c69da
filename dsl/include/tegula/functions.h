#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tegula/derivative.h"
#include "tegula/lambda.h"
#include "tegula/location.h"
#include "tegula/tensor.h"
#include "tegula/value.h"

/// Lambdas that are arguments of a kernel, and the facts found by tracing one separately.
namespace tegula {

/// True if the query at position q sees the key at position kv. Arguments are traced integers:
/// batch entry, head, positions.
using Mask = Lambda<Tile(Tile b, Tile h, Tile q, Tile kv)>;

/// New score from the score s (f32, scaled). Further arguments are traced integers: batch entry,
/// head, positions of query and key.
using Score = Lambda<Tile(Tile s, Tile b, Tile h, Tile q, Tile kv)>;

/// The cost of a score function in registers, found by tracing it.
struct ScoreTraits {
  /// True if the function reads the key's position: the start of a block then stays in registers.
  bool reads_kv_index = false;
  /// True if it needs separate registers for each element of a block: it reads a tensor at the
  /// key's position, or computes a long function there.
  bool has_per_element_state = false;
  /// True if it depends only on the distance of key and query, which has few values in a block if
  /// rows are consecutive positions.
  bool is_toeplitz = false;
  /// Bytes per pair that TMA can load as part of a tile, if they are the only reason for
  /// `has_per_element_state`.
  int tma_bytes_per_element = 0;
  /// True if turning scores into weights needs the row's other elements of the block.
  bool needs_row_scan = false;
  /// True if, for equal dot products, scores are known to grow with the distance by which the key
  /// precedes the query. Not known for captured tensors and Scalars.
  bool grows_with_distance = false;
};

/// A score function that gives -inf for some pairs, as a mask and a score.
struct SplitScore {
  Mask is_visible;  ///< false where the score is -inf
  Score score;      ///< none: the score is unchanged
};

/// Values that the derivative of a score function in s depends on; `uniform`: only on the
/// batch entry, the head and captured values.
enum class ScoreSlope : std::uint8_t { zero, one, uniform, query, key, pair };

/// A tensor or Scalar of floats that a score function captures.
struct ScoreCapture {
  CaptureSource source;
  /// If a tensor is read once, and arguments of the function index its dimensions as they are: the
  /// dimensions that batch entry, head, query and key index, -1 for none. Others are read at 0.
  std::optional<std::array<int, 4>> axes;
};

class TracedFunction;

/// A score function, traced once over scalars. If it cannot be traced, it has no cost and is not
/// split; the trace of the kernel then reports the error.
class ScoreFunction {
 public:
  explicit ScoreFunction(Score score);

  ScoreTraits cost() const;
  /// Splits a score `where(condition, x, -INFINITY)`, whose condition depends on positions and
  /// tables but not on the score. Returns nothing without such a condition.
  std::optional<SplitScore> split() const;
  /// Throws CompileError T1022 if the function has no derivative. `pair` if it cannot be traced.
  ScoreSlope slope() const;
  /// Returns what the function captures, in an order that depends on the function only. Sources are
  /// valid as long as this object. Empty if the function cannot be traced.
  std::vector<ScoreCapture> captures() const;

 private:
  Score score_;
  std::shared_ptr<const TracedFunction> traced_;
};

/// The reads of captured tensors by a mask or a score function.
class TableReads {
 public:
  enum class Argument : std::uint8_t { batch, head, query, key };
  /// A dimension of a tensor that one of the function's arguments indexes as it is, where nothing
  /// in the function decides whether the element matters: no `where`, `&&`, `||` or fill_absent.
  struct ByArgument {
    const Tensor* table;
    int axis;
    Argument argument;
    Loc at;
  };

  /// Traces a function that outlives this object; if that fails, the object has no reads.
  explicit TableReads(const Score& score);

  bool any() const { return any_; }
  const std::vector<ByArgument>& by_argument() const { return by_argument_; }
  bool depends_on(Argument a) const { return depends_on_[static_cast<std::size_t>(a)]; }

 private:
  std::shared_ptr<const TracedFunction> traced_;
  bool any_ = false;
  std::array<bool, 4> depends_on_{};
  std::vector<ByArgument> by_argument_;
};

/// Makes `cpu` and `sim` report (T1314) each element that is read outside its view and decides an
/// element of `value`, an i1, in the kernel that is being traced. Other devices ignore it.
void require_inside_reads(const Tile& value);

}  // namespace tegula
