// Lesson 12: training attention. `backward` computes the gradients of Q, K and V from the
// specification of the forward call. Here Q and K learn to attend to the preceding position.
#include <tegula/kernels/attention.h>
#include <tegula/kernels/masks.h>
#include <tegula/tegula.h>

#include <cmath>
#include <cstdio>
#include <vector>

using namespace tegula;

namespace {

constexpr std::int64_t kHeads = 2, kLength = 24, kDim = 16, kCount = kHeads * kLength * kDim;
constexpr Dims kShape{1, kHeads, kLength, kDim}, kRows{kHeads * kLength, kDim};

/// The gradient of the loss |O - target|^2 / 2.
const auto difference =
    kernel("difference", [](In<bf16, 2> o, In<bf16, 2> target, Out<bf16, 2> dO) {
      for (auto [r, c] : grid(dO, 8, kDim))
        dO(r, c) = cast<bf16>(cast<f32>(o(r, c)) - cast<f32>(target(r, c)));
    });

/// A step of gradient descent on f32 parameters; attention reads a bf16 copy of them.
const auto descend = kernel(
    "descend", [](In<bf16, 2> gradient, Scalar<f32> rate, InOut<f32, 2> master, Out<bf16, 2> copy) {
      for (auto [r, c] : grid(copy, 8, kDim)) {
        const Tile moved = master(r, c) - rate * cast<f32>(gradient(r, c));
        master(r, c) = moved;
        copy(r, c) = cast<bf16>(moved);
      }
    });

struct Parameter {
  Tensor master, value, gradient;

  Parameter(std::uint64_t seed, Device device)
      : master(Tensor::normal(kShape, DType::f32, 0, 1, seed, device)),
        value(Tensor::zeros(kShape, DType::bf16, device)),
        gradient(Tensor::zeros(kShape, DType::bf16, device)) {
    step(Stream(device), 0);
  }
  void step(const Stream& stream, float rate) const {
    descend(stream, gradient.reshape(kRows), rate, master.reshape(kRows), value.reshape(kRows));
  }
};

/// The loss in double precision.
double loss_of(const std::vector<double>& q, const std::vector<double>& k,
               const std::vector<double>& v, const std::vector<double>& target) {
  double loss = 0;
  for (std::int64_t h = 0; h < kHeads; ++h)
    for (std::int64_t i = 0; i < kLength; ++i) {
      const std::int64_t head = h * kLength, row = (head + i) * kDim;
      double sum = 0;
      std::vector<double> out(kDim);
      for (std::int64_t j = 0; j <= i; ++j) {
        double s = 0;
        for (std::int64_t d = 0; d < kDim; ++d) s += q[row + d] * k[(head + j) * kDim + d];
        const double weight = std::exp(s / std::sqrt(static_cast<double>(kDim)));
        sum += weight;
        for (std::int64_t d = 0; d < kDim; ++d) out[d] += weight * v[(head + j) * kDim + d];
      }
      for (std::int64_t d = 0; d < kDim; ++d)
        loss += std::pow(out[d] / sum - target[row + d], 2) / 2;
    }
  return loss;
}

/// Returns |gradient - expected| / |expected|, where central differences of `loss` are expected.
template <class Loss>
double error_of(const Tensor& gradient, std::vector<double> at, const Loss& loss) {
  constexpr double kStep = 1e-4;
  const std::vector<double> got = gradient.to_doubles();
  double off = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double x = at[i];
    at[i] = x + kStep;
    const double above = loss(at);
    at[i] = x - kStep;
    const double slope = (above - loss(at)) / (2 * kStep);
    at[i] = x;
    off += std::pow(got[i] - slope, 2);
    norm += slope * slope;
  }
  return std::sqrt(off / norm);
}

}  // namespace

int main() {
  const Device device = Device::best();
  const Stream stream(device);
  const Parameter Q(1, device), K(2, device);
  const Tensor V = Tensor::normal(kShape, DType::bf16, 0, 1, 3, device),
               O = Tensor::empty(kShape, DType::bf16, device),
               dO = Tensor::empty(kShape, DType::bf16, device),
               lse = Tensor::empty({1, kHeads, kLength}, DType::f32, device);
  // The target of each position is the value of the preceding position; of the first, its own.
  const Tensor target = V.clone();
  target.slice(2, 1, kLength).copy_from(V.slice(2, 0, kLength - 1));

  const auto attend = kernels::attention({.mask = kernels::masks::causal()});
  const std::vector<double> v = V.to_doubles(), wanted = target.to_doubles();
  double first = 0, last = 0;
  bool right = true;
  for (int step = 0; step <= 12; ++step) {
    attend(stream, Q.value, K.value, V, O, {.lse = lse});  // backward needs lse
    difference(stream, O.reshape(kRows), target.reshape(kRows), dO.reshape(kRows));
    // V is not trained: omitted gradients are not computed.
    attend.backward(stream, Q.value, K.value, V, {.O = O, .lse = lse}, {.O = dO},
                    {.Q = Q.gradient, .K = K.gradient});
    const std::vector<double> q = Q.value.to_doubles(), k = K.value.to_doubles();
    last = loss_of(q, k, v, wanted) / kCount;
    if (step == 0) {
      first = last;
      const double of_q =
          error_of(Q.gradient, q, [&](const auto& x) { return loss_of(x, k, v, wanted); });
      const double of_k =
          error_of(K.gradient, k, [&](const auto& x) { return loss_of(q, x, v, wanted); });
      std::printf("gradients on %s: dQ is off by %.1e of its norm, dK by %.1e\n",
                  device.str().c_str(), of_q, of_k);
      right = of_q < 0.02 && of_k < 0.02;
    }
    if (step % 4 == 0) std::printf("step %2d: loss %.3f\n", step, last);
    Q.step(stream, 0.3f);
    K.step(stream, 0.3f);
  }
  return right && last < first / 4 ? 0 : 1;
}
