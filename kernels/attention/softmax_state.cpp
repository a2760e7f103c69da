#include "kernels/attention/softmax_state.h"

#include <cmath>

#include "tegula/tegula.h"

namespace tegula::kernels {
namespace {

struct Weigh {
  const Tile &scores, &factor, &first;
  Tile operator()(OnlineSoftmax& s) const { return s.step(scores, factor, first); }
  Tile operator()(StickBreaking& s) const { return s.step(scores, factor); }
  Tile operator()(UnnormalizedState&) const { return scores * factor; }
};

}  // namespace

SoftmaxState initial_softmax_state(AttentionNormalization weighting, Rescaling rescaling, int rows,
                                   int columns, DType weights) {
  if (weighting == AttentionNormalization::softmax)
    return OnlineSoftmax(rows, columns, rescaling, weights);
  if (weighting == AttentionNormalization::stick_breaking) return StickBreaking(rows, columns);
  return UnnormalizedState{zeros<f32>(rows, columns)};
}

float masked_score(AttentionNormalization weighting) {
  return weighting == AttentionNormalization::none ? 0 : -INFINITY;
}

Tile softmax_step(SoftmaxState& rows, const Tile& scores, const Tile& factor, const Tile& first) {
  return std::visit(Weigh{scores, factor, first}, rows);
}

Tile& accumulator_of(SoftmaxState& rows) {
  return std::visit([](auto& r) -> Tile& { return r.acc; }, rows);
}

}  // namespace tegula::kernels
