#include "kernels/attention/online_softmax.h"

#include <cmath>
#include <numbers>

#include "tegula/tegula.h"

namespace tegula {
namespace {

/// Threshold of lazy rescaling (log2): the reference is kept until the row maximum exceeds it by
/// more than this.
constexpr float kSlack = 8;
/// Row sums that are accurate without rescaling. A row with a key in the first block has a weight
/// of 1 in it. No weight is larger than the sum, so none of halves overflows.
struct Range {
  float least, most;
};
constexpr Range kSums{0x1p-24f, 0x1p64f}, kHalfSums{0.5f, 0x1p15f};
constexpr float kLn2 = std::numbers::ln2_v<float>, kLog2E = std::numbers::log2e_v<float>;

}  // namespace

OnlineSoftmax::OnlineSoftmax(int rows, int columns, Rescaling rescaling, DType weights)
    : top(full<f32>(kFloor, rows)),
      sum(zeros<f32>(rows)),
      out(zeros<f32>(rows, columns)),
      rescaling_(rescaling),
      weights_(weights) {}

Tile OnlineSoftmax::step(const Tile& scores, const Tile& factor, const Tile& first) {
  if (rescaling_ != Rescaling::never) return rescaled_step(scores, factor);
  top = where(first, reference(scores), top);
  const Tile weights = exp2(fma(scores, factor, expand(top * -factor, 1)));
  sum = sum + tegula::sum(weights, 1);
  return weights;
}

/// Reference of a row that attends to no key of the block: 0, which is near enough to scores as a
/// rule if weights have the range of floats.
Tile OnlineSoftmax::reference(const Tile& scores) const {
  const Tile peak = max(scores, axis(1));
  return where(peak == -INFINITY, weights_ == DType::f16 ? NAN : 0.0f, peak);
}

Tile OnlineSoftmax::rescaled_step(const Tile& scores, const Tile& factor) {
  const Tile peak = max(top, max(scores, axis(1)));
  const Tile now =
      rescaling_ == Rescaling::lazy ? where((peak - top) * factor > kSlack, peak, top) : peak;
  const Tile weights = exp2(fma(scores, factor, expand(now * -factor, 1)));
  const Tile rescale = exp2((top - now) * factor);
  sum = fma(sum, rescale, tegula::sum(weights, 1));
  out = conditional_rescale(out, expand(rescale, 1));
  top = now;
  return weights;
}

Tile OnlineSoftmax::doubtful() const {
  const Range range = weights_ == DType::f16 ? kHalfSums : kSums;
  const Tile is_sure = sum >= range.least && sum <= range.most;
  if (weights_ == DType::f16) return !is_sure;  // the values, too, are far from a float's largest
  return !(is_sure && tegula::sum(abs(out), 1) < INFINITY);
}

SoftmaxFinalizer::SoftmaxFinalizer(const OnlineSoftmax& s, const Tile& factor)
    : top_(s.top), factor_(factor), sum_(s.sum), empty_(s.sum == 0.0f) {}

SoftmaxFinalizer::SoftmaxFinalizer(const OnlineSoftmax& s, const Tile& factor, const Tile& sink) {
  const Tile top = s.top * factor, extra = sink * kLog2E;
  top_ = max(top, extra);
  factor_ = full<f32>(1);
  share_ = exp2(top - top_);
  sum_ = fma(s.sum, *share_, exp2(extra - top_));
  empty_ = sum_ == 0.0f;
}

Tile SoftmaxFinalizer::inv_row_sum() const {
  return where(empty_, 0.0f, share_ ? *share_ * rcp(sum_) : rcp(sum_));
}
Tile SoftmaxFinalizer::lse() const {
  return where(empty_, -INFINITY, fma(top_, factor_, log2(sum_)) * kLn2);
}

Tile row_maximum(const OnlineSoftmax& s, const Tile& factor) {
  return where(s.sum == 0.0f, -INFINITY, s.top * factor * kLn2);
}

}  // namespace tegula
