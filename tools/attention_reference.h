#pragma once
// Attention in double precision on the host, one row of queries at a time: the reference for the
// demo's kernels.
#include <functional>
#include <span>
#include <vector>

#include "tegula/tensor.h"

namespace tegula::tools {

/// The exact result of one row, and the scale of its rounding errors.
struct ReferenceRow {
  std::vector<double> out;
  std::vector<double>
      magnitude;  ///< sum of weight * |v|: the scale of each element's rounding errors
  double lse = 0;
};

/// Mask and score function on numbers: head, query position, key position.
struct ReferenceSpec {
  std::function<bool(int q, int kv)> mask;
  std::function<double(double s, int h, int q, int kv)> score;
  double scale = 1;
};

/// `q` is the row [head_dim]; `k` and `v` are [length, head_dim].
ReferenceRow attention_row(const ReferenceSpec& spec, int head, int position,
                           std::span<const double> q, std::span<const double> k,
                           std::span<const double> v);

/// Deviation of a computed tensor from the reference.
struct Agreement {
  double worst = 0;  ///< largest absolute error of an output
  double relative_to_bound =
      0;  ///< largest error relative to the rounding bound; at most 1 if correct
  bool good() const { return relative_to_bound <= 1; }
};

/// Compares rows [first, last) of one head. `Q` and `O` are [length, head_dim], `Lse` is [length],
/// on any device.
Agreement compare_head(const ReferenceSpec& spec, int head, const Tensor& Q, const Tensor& K,
                       const Tensor& V, const Tensor& O, const Tensor& Lse, std::int64_t first,
                       std::int64_t last);

}  // namespace tegula::tools
