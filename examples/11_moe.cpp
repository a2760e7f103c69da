// Lesson 11: a mixture-of-experts layer. A router chooses the experts of each token; the rows of
// all tokens are sorted by expert, multiplied, and summed per token, entirely on the device.
#include <cmath>
#include <cstdio>
#include <vector>

#include "tegula/kernels/moe.h"
#include "tegula/tegula.h"

using namespace tegula;
using namespace tegula::kernels;

namespace {

constexpr int kExperts = 5, kTokens = 24, kHidden = 64, kWidth = 32;

/// A router is a lambda from logits [tokens, experts] to choices: here the best two experts, the
/// second one with half of its weight.
const Router half_of_the_second{2, [](const Tile& logits, const Index&) {
                                  const Tile ids = topk(logits, 2, 1).indices;
                                  const Tile w = routers::softmax_rows(gather(logits, ids, 1));
                                  return Routing{where(arange(2)(none, all) == 0, w, w * 0.5f),
                                                 ids};
                                }};

/// Computes the same for one token on the host, with x and the experts' weights in doubles.
std::vector<double> on_host(const std::vector<double>& x, const std::vector<double>& z,
                            const std::vector<double>& up, const std::vector<double>& down) {
  int first = 0;
  for (int e = 1; e < kExperts; ++e)
    if (z[static_cast<std::size_t>(e)] > z[static_cast<std::size_t>(first)]) first = e;
  int second = first == 0 ? 1 : 0;
  for (int e = 0; e < kExperts; ++e)
    if (e != first && z[static_cast<std::size_t>(e)] > z[static_cast<std::size_t>(second)])
      second = e;
  const double share =
      1 / (1 + std::exp(z[static_cast<std::size_t>(second)] - z[static_cast<std::size_t>(first)]));
  std::vector<double> y(kHidden);
  for (const auto& [expert, weight] : {std::pair{first, share}, {second, (1 - share) / 2}})
    for (int j = 0; j < kWidth; ++j) {
      double gate = 0, value = 0;
      const int row = expert * 2 * kWidth + j;
      for (int c = 0; c < kHidden; ++c) {
        gate += x[static_cast<std::size_t>(c)] * up[static_cast<std::size_t>(row * kHidden + c)];
        value += x[static_cast<std::size_t>(c)] *
                 up[static_cast<std::size_t>((row + kWidth) * kHidden + c)];
      }
      const double a = gate / (1 + std::exp(-gate)) * value;
      for (int c = 0; c < kHidden; ++c)
        y[static_cast<std::size_t>(c)] +=
            weight * a * down[static_cast<std::size_t>((expert * kHidden + c) * kWidth + j)];
    }
  return y;
}

}  // namespace

int main() {
  const Device device = Device::best();
  const Tensor X = Tensor::normal({kTokens, kHidden}, DType::bf16, 0, 1, 1, device),
               logits = Tensor::normal({kTokens, kExperts}, DType::f32, 0, 1, 2, device),
               Y = Tensor::empty({kTokens, kHidden}, DType::bf16, device);
  const MoeWeights weights{
      .up = Tensor::normal({kExperts, 2 * kWidth, kHidden}, DType::bf16, 0, 0.125, 3, device),
      .down = Tensor::normal({kExperts, kHidden, kWidth}, DType::bf16, 0, 0.2, 4, device)};

  // No launch depends on the number of rows per expert, so a call can be recorded in a graph.
  const Moe layer = moe({.router = half_of_the_second, .experts = kExperts});
  layer.from_logits(Stream(device), X, logits, weights, Y);

  const auto x = X.to_doubles(), z = logits.to_doubles(), y = Y.to_doubles(),
             up = weights.up.to_doubles(), down = weights.down.to_doubles();
  const auto row = [](const std::vector<double>& all, int t, int width) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(t) * width;
    return std::vector<double>(first, first + width);
  };
  double worst = 0;
  for (int t = 0; t < kTokens; ++t) {
    const auto want = on_host(row(x, t, kHidden), row(z, t, kExperts), up, down);
    for (int c = 0; c < kHidden; ++c)
      worst = std::max(worst, std::abs(y[static_cast<std::size_t>(t * kHidden + c)] -
                                       want[static_cast<std::size_t>(c)]));
  }
  std::printf("%d tokens through %d experts on %s: largest error %.1e\n", kTokens, kExperts,
              device.str().c_str(), worst);
  return worst < 0.02 ? 0 : 1;
}
