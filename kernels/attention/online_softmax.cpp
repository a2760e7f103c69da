#include "kernels/attention/online_softmax.h"

#include <cmath>
#include <numbers>

#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

/// Threshold of lazy rescaling (log2): the reference is kept until the row maximum exceeds it by
/// more than this.
constexpr float kLazyRescaleThreshold = 8;
/// Range of row sums that are accurate without rescaling. A row with a key in the first block has a
/// weight of 1 there. No weight exceeds the sum, so none overflows as f16.
struct Range {
  float least, most;
};
constexpr Range kSums{0x1p-24f, 0x1p64f}, kHalfSums{0.5f, 0x1p15f};
constexpr float kLn2 = std::numbers::ln2_v<float>, kLog2E = std::numbers::log2e_v<float>;

}  // namespace

OnlineSoftmax::OnlineSoftmax(int rows, int columns, Rescaling rescaling, DType weights)
    : row_max(full<f32>(kMinFiniteMax, rows)),
      row_sum(zeros<f32>(rows)),
      acc(zeros<f32>(rows, columns)),
      rescaling_(rescaling),
      weights_(weights) {}

OnlineSoftmax OnlineSoftmax::with_keys_in_m(int keys, int rows, int columns, Rescaling rescaling) {
  OnlineSoftmax s(rows, columns, rescaling, DType::f32);
  s.keys_dim_ = 0;
  s.row_sum = zeros<f32>(keys, rows);
  s.acc = zeros<f32>(columns, rows);
  return s;
}

OnlineSoftmax OnlineSoftmax::with_rows_in_m() const {
  OnlineSoftmax s = *this;
  s.keys_dim_ = 1;
  s.row_sum = tegula::sum(row_sum, axis(0));
  s.acc = acc.T();
  return s;
}

Tile OnlineSoftmax::step(const Tile& scores, const Tile& factor, const Tile& first) {
  if (rescaling_ != Rescaling::never) return rescaled_step(scores, factor);
  row_max = where(first, reference(scores), row_max);
  const Tile weights = exp2(fma(scores, factor, expand(row_max * -factor, 1)));
  row_sum = row_sum + tegula::sum(weights, 1);
  return weights;
}

/// Returns the reference of each row: its largest score. For a row without keys in the block, 0 is
/// usually close enough; f16 weights have too small a range for it, and NaN forces a recomputation.
Tile OnlineSoftmax::reference(const Tile& scores) const {
  const Tile peak = max(scores, axis(1));
  return where(peak == -INFINITY, weights_ == DType::f16 ? NAN : 0.0f, peak);
}

Tile OnlineSoftmax::rescaled_step(const Tile& scores, const Tile& factor) {
  const Tile peak = max(row_max, max(scores, axis(keys_dim_)));
  const Tile now = rescaling_ == Rescaling::lazy
                       ? where((peak - row_max) * factor > kLazyRescaleThreshold, peak, row_max)
                       : peak;
  const Tile weights = exp2(fma(scores, factor, expand(now * -factor, keys_dim_)));
  const Tile rescale = exp2((row_max - now) * factor);
  row_sum = keys_dim_ == 0 ? fma(row_sum, expand(rescale, 0), weights)
                           : fma(row_sum, rescale, tegula::sum(weights, 1));
  acc = conditional_rescale(acc, expand(rescale, keys_dim_));
  row_max = now;
  return weights;
}

Tile OnlineSoftmax::needs_recompute() const {
  const Range range = weights_ == DType::f16 ? kHalfSums : kSums;
  const Tile is_sure = row_sum >= range.least && row_sum <= range.most;
  if (weights_ == DType::f16) return !is_sure;  // with f16 values, outputs cannot overflow f32
  return !(is_sure && tegula::sum(abs(acc), 1) < INFINITY);
}

SoftmaxFinalizer::SoftmaxFinalizer(const OnlineSoftmax& s, const Tile& factor)
    : row_max_(s.row_max), factor_(factor), row_sum_(s.row_sum), is_empty_(s.row_sum == 0.0f) {}

SoftmaxFinalizer::SoftmaxFinalizer(const OnlineSoftmax& s, const Tile& factor, const Tile& sink) {
  const Tile row_max = s.row_max * factor, extra = sink * kLog2E;
  row_max_ = max(row_max, extra);
  factor_ = full<f32>(1);
  acc_fraction_ = exp2(row_max - row_max_);
  row_sum_ = fma(s.row_sum, *acc_fraction_, exp2(extra - row_max_));
  is_empty_ = row_sum_ == 0.0f;
}

Tile SoftmaxFinalizer::inv_row_sum() const {
  return where(is_empty_, 0.0f, acc_fraction_ ? *acc_fraction_ * rcp(row_sum_) : rcp(row_sum_));
}
Tile SoftmaxFinalizer::lse() const {
  return where(is_empty_, -INFINITY, fma(row_max_, factor_, log2(row_sum_)) * kLn2);
}

Tile scaled_row_max(const OnlineSoftmax& s, const Tile& factor) {
  return where(s.row_sum == 0.0f, -INFINITY, s.row_max * factor * kLn2);
}

}  // namespace tegula::kernels
