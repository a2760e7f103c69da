#include "kernels/attention/row_weights.h"

#include <cmath>

#include "tegula/tegula.h"

namespace tegula {
namespace {

struct Weigh {
  const Tile &scores, &factor, &first;
  Tile operator()(OnlineSoftmax& s) const { return s.step(scores, factor, first); }
  Tile operator()(StickBreaking& s) const { return s.step(scores, factor); }
  Tile operator()(ScoresAsWeights&) const { return scores * factor; }
};

}  // namespace

RowWeights row_weights(Weighting weighting, Rescaling rescaling, int rows, int columns,
                       DType weights) {
  if (weighting == Weighting::softmax) return OnlineSoftmax(rows, columns, rescaling, weights);
  if (weighting == Weighting::stick_breaking) return StickBreaking(rows, columns);
  return ScoresAsWeights{zeros<f32>(rows, columns)};
}

float unseen_score(Weighting weighting) { return weighting == Weighting::scores ? 0 : -INFINITY; }

Tile weigh(RowWeights& rows, const Tile& scores, const Tile& factor, const Tile& first) {
  return std::visit(Weigh{scores, factor, first}, rows);
}

Tile& sums_of(RowWeights& rows) {
  return std::visit([](auto& r) -> Tile& { return r.out; }, rows);
}

}  // namespace tegula
