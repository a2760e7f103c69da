#pragma once
// AdamW compared with a reference in double, step by step.
#include <vector>

#include "tegula/kernels/adamw.h"
#include "tests/differential/row_checks.h"

namespace tegula::test {
using namespace kernels;

/// A parameter of `count` elements; a misaligned one begins one element after a 16-byte boundary.
inline AdamWTensors adamw_tensors(std::int64_t count, DType weight, DType gradient, Device device,
                                  bool is_aligned) {
  const auto of = [&](DType dtype, std::uint64_t seed) {
    const Tensor t = Tensor::normal({count + 1}, dtype, 0, 1, seed + count, device);
    return is_aligned ? t.slice(0, 0, count) : t.slice(0, 1, count + 1);
  };
  const AdamWTensors t{of(weight, 1), of(gradient, 2), of(DType::f32, 3), of(DType::f32, 4)};
  Doubles squares = t.second_moment.to_doubles();
  for (double& s : squares) s *= s;
  t.second_moment.copy_from(
      Tensor::from(squares, {count}, Device::cpu()).cast(DType::f32).to(device));
  return t;
}

inline void check_adamw_step(const AdamW& optimizer, const std::vector<AdamWTensors>& tensors,
                             std::int64_t step, const AdamWOptions& o, const Stream& stream) {
  std::vector<Doubles> weights, firsts, seconds;
  for (const AdamWTensors& t : tensors) {
    weights.push_back(t.weight.to_doubles());
    firsts.push_back(t.first_moment.to_doubles());
    seconds.push_back(t.second_moment.to_doubles());
  }
  optimizer.step(stream, step, o);
  const auto at = static_cast<double>(step);
  const double c1 = 1 - std::pow(static_cast<double>(o.beta1), at),
               c2 = 1 - std::pow(static_cast<double>(o.beta2), at);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Doubles g = tensors[i].gradient.to_doubles();
    Doubles &w = weights[i], &m = firsts[i], &v = seconds[i];
    for (std::size_t e = 0; e < g.size(); ++e) {
      const double scaled = g[e] * o.gradient_scale;
      m[e] = o.beta1 * m[e] + (1.0 - o.beta1) * scaled;
      v[e] = o.beta2 * v[e] + (1.0 - o.beta2) * scaled * scaled;
      w[e] = w[e] * (1.0 - o.learning_rate * o.weight_decay) -
             o.learning_rate * (m[e] / c1) / (std::sqrt(v[e] / c2) + o.epsilon);
    }
    expect_elements(tensors[i].weight, w, 0.05);
    expect_elements(tensors[i].first_moment, m, 0.1);
    expect_elements(tensors[i].second_moment, v, 0.1);
  }
}

inline void check_adamw(Device device) {
  constexpr struct {
    DType weight, gradient;
  } kTypes[] = {{DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}};
  for (const auto& [weight, gradient] : kTypes) {
    SCOPED_TRACE(testing::Message() << name(weight) << ", gradients " << name(gradient));
    std::vector<AdamWTensors> tensors;
    for (const std::int64_t count : {8292, 1, 5000, 0, 16384, 4096})
      tensors.push_back(adamw_tensors(count, weight, gradient, device, count != 5000));
    const AdamW optimizer(tensors);
    const AdamWOptions options{
        .learning_rate = 0.02f, .weight_decay = 0.1f, .gradient_scale = 0.5f};
    check_adamw_step(optimizer, tensors, 1, options, Stream(device));
    check_adamw_step(optimizer, tensors, 7, {.beta1 = 0.8f, .beta2 = 0.95f, .epsilon = 1e-3f},
                     Stream(device));
  }
}

/// One step on weights of 1 with gradients of 1 and no moments: the exact weights are 0.999, about
/// a quarter of the way from 1 to the next lower number in bf16.
inline std::vector<double> stochastic_weights(Device device, std::uint64_t seed, std::int64_t step,
                                              bool is_aligned) {
  constexpr std::int64_t kCount = 3 * 4096 + 77;
  const auto filled = [&](DType dtype, double value) {
    return Tensor::full({kCount + 1}, value, dtype, device)
        .slice(0, is_aligned ? 0 : 1, is_aligned ? kCount : kCount + 1);
  };
  const std::vector<AdamWTensors> tensors{{filled(DType::bf16, 1), filled(DType::bf16, 1),
                                           filled(DType::f32, 0), filled(DType::f32, 0)}};
  AdamW(tensors).step(
      Stream(device), step,
      {.learning_rate = 1e-3f, .beta1 = 0, .beta2 = 0, .weight_decay = 0, .rounding_seed = seed});
  return tensors[0].weight.to_doubles();
}

/// Stochastic rounding keeps the mean, which rounding to nearest loses here; its bits depend on
/// seed, step and place alone.
inline void check_adamw_stochastic(Device device) {
  constexpr double kLower = 1 - 0x1p-8;
  const auto weights = stochastic_weights(device, 7, 1, true);
  double sum = 0;
  for (const double w : weights) {
    ASSERT_TRUE(w == 1 || w == kLower) << w;
    sum += w;
  }
  EXPECT_NEAR(sum / static_cast<double>(weights.size()), 0.999, 1e-4);  // 6 standard deviations
  EXPECT_EQ(stochastic_weights(device, 7, 1, false), weights);
  const auto differing = [&](const std::vector<double>& others) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) count += weights[i] != others[i];
    return static_cast<double>(count) / static_cast<double>(weights.size());
  };
  EXPECT_GT(differing(stochastic_weights(device, 8, 1, true)), 0.3);
  EXPECT_GT(differing(stochastic_weights(device, 7, 2, true)), 0.3);
}

}  // namespace tegula::test
