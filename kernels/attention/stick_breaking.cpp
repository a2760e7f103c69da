#include "kernels/attention/stick_breaking.h"

#include <numbers>

#include "tegula/tegula.h"

namespace tegula::kernels {

StickBreaking::StickBreaking(int rows, int columns)
    : log2_remaining(zeros<f32>(rows)), acc(zeros<f32>(rows, columns)) {}

Tile StickBreaking::step(const Tile& scores, const Tile& factor) {
  const Tile x = scores * factor;
  // log2 of b and of 1 - b, each accurate near 0. A score of -inf leaves log2(1 - b) = 0: the
  // remaining weight is unchanged.
  const Tile common = log2(1.0f + exp2(-abs(x)));
  const Tile taken = -(max(-x, 0.0f) + common), passed = -(max(x, 0.0f) + common);
  const Tile behind = cumsum(passed, axis(1), {.reverse = true, .exclusive = true});
  const Tile of_block = sum(passed, 1);
  log2_remaining = log2_remaining + of_block;
  acc = acc * expand(exp2(of_block), 1);
  return exp2(taken + behind);
}

Tile StickBreaking::log_remaining() const { return log2_remaining * std::numbers::ln2_v<float>; }

}  // namespace tegula::kernels
