#pragma once
// Sums of exponentials of rows that are read a block of columns at a time: online softmax (Milakov
// and Gimelshein 2018).
#include <numbers>

#include "tegula/control.h"
#include "tegula/math.h"
#include "tegula/tile_ops.h"

namespace tegula::kernels {

/// Maximum of a row, and sum of the exponentials of its elements relative to the maximum.
struct RowExponentials {
  Tile top, total;
};

/// Returns e^(x - top). Subtracting first keeps the difference of large numbers exact.
inline Tile exp_above(const Tile& x, const Tile& top) {
  return exp2((x - top) * std::numbers::log2e_v<float>);
}

/// Returns the reference of exponentials: the maximum, or 0 if it is -inf (all are 0 then).
inline Tile finite_reference(const Tile& top) { return where(top == -inf, 0.0f, top); }

/// Running maxima and sums, one of each per kLaneColumns columns of a block: these columns are one
/// 16-byte access of one thread, so threads exchange nothing before the row ends.
class OnlineExponentials {
 public:
  explicit OnlineExponentials(int block)
      : lanes_(block > kLaneColumns ? block / kLaneColumns : 1),
        columns_(block / lanes_),
        top_(full<f32>(-inf, lanes_)),
        total_(zeros<f32>(lanes_)) {}

  /// Adds a block of columns; absent columns are -inf.
  void add(const Tile& block) {
    const Tile lanes = block.reshape({lanes_, columns_});
    const Tile now = max(top_, max(lanes, axis(1))), reference = finite_reference(now);
    total_ = total_ * exp_above(top_, reference) + sum(exp_above(lanes, reference.expand(1)), 1);
    top_ = now;
  }
  RowExponentials of_row() const {
    const Tile top = max(top_);
    return {top, sum(total_ * exp_above(top_, finite_reference(top)))};
  }

 private:
  static constexpr int kLaneColumns = 8;
  int lanes_, columns_;
  Tile top_, total_;
};

}  // namespace tegula::kernels
