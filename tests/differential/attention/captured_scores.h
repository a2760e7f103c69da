#pragma once
// Score functions of the catalogue whose captures have gradients, with references in double
// precision. Slopes are central differences.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tegula/kernels/scores.h"
#include "tests/differential/attention/backward_reference.h"

namespace tegula::test {

using ScorePair = std::array<std::int64_t, 4>;  ///< b, h, q, kv

struct CapturedScore {
  std::string name;
  Score score;
  CapturedGradient captured;
  std::vector<double> values;  ///< of the capture
  std::function<double(double s, const ScorePair&, const std::vector<double>& values)> host;

  HostAttention attention() const {
    HostAttention of;
    of.mask = [](int, int, int q, int kv) { return q >= kv; };
    of.score = [*this](double s, int b, int h, int q, int kv) {
      return host(s, {b, h, q, kv}, values);
    };
    return of;
  }
  /// Returns the derivative of a pair's score in an element of the capture.
  double slope(double s, const ScorePair& at, std::size_t element) const {
    constexpr double kStep = 1e-4;
    std::vector<double> moved = values;
    moved[element] += kStep;
    const double above = host(s, at, moved);
    moved[element] -= 2 * kStep;
    return (above - host(s, at, moved)) / (2 * kStep);
  }
};

/// Returns the bucket of T5's table (Raffel et al. 2020) for a key `distance` before its query.
inline int t5_bucket_of(int distance, int buckets, int max_distance) {
  const int exact = buckets / 2;
  if (distance < exact) return distance;
  const double share = std::log(static_cast<double>(distance) / exact) /
                       std::log(static_cast<double>(max_distance) / exact);
  return std::min(exact + static_cast<int>(share * (buckets - exact)), buckets - 1);
}

/// Returns scores for `batch` entries of two heads and `length` positions under a causal mask.
inline std::vector<CapturedScore> captured_scores(std::int64_t batch, std::int64_t length,
                                                  Device device) {
  constexpr std::int64_t kHeads = 2, kBuckets = 8, kMaxDistance = 40, kSteps = 3, kTypes = 4;
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const auto random = [&](const Dims& shape) {
    return Tensor::normal(shape, DType::f32, 0, 0.5, 11, device);
  };
  const auto into = [&](const Dims& shape) { return Tensor::full(shape, NAN, DType::f32, device); };
  const auto made = [&](std::string name, const Score& score, const Tensor& table,
                        const auto& host) {
    return CapturedScore{
        std::move(name), score, {table, into(table.shape())}, table.to_doubles(), host};
  };
  const Tensor slopes = random({kHeads}), buckets = random({kBuckets, kHeads}),
               edges = random({kSteps, kHeads, kTypes}),
               types = Tensor::integers({batch, length, length, kSteps}, DType::i32, 0, kTypes, 3,
                                        device),
               lengths =
                   Tensor::integers({batch, length, length}, DType::i32, 0, kSteps + 1, 4, device);
  using Values = std::vector<double>;
  std::vector<CapturedScore> all;
  all.push_back(made("alibi", kernels::scores::alibi(slopes), slopes,
                     [=](double s, const ScorePair& p, const Values& v) {
                       return s + static_cast<double>(p[3] - p[2]) * v[at(p[1])];
                     }));
  all.push_back(
      made("t5_bias", kernels::scores::t5_bias(buckets, kMaxDistance, false), buckets,
           [=](double s, const ScorePair& p, const Values& v) {
             const int distance = static_cast<int>(std::max<std::int64_t>(p[2] - p[3], 0));
             return s + v[at(t5_bucket_of(distance, kBuckets, kMaxDistance) * kHeads + p[1])];
           }));
  all.push_back(made("graph_edges", kernels::scores::graph_edges(edges, types, lengths), edges,
                     [=, of = types.to_doubles(), counts = lengths.to_doubles()](
                         double s, const ScorePair& p, const Values& v) {
                       const std::int64_t pair = (p[0] * length + p[2]) * length + p[3];
                       const double count = counts[at(pair)];
                       double sum = 0;
                       for (std::int64_t n = 0; n < static_cast<std::int64_t>(count); ++n) {
                         const auto type = static_cast<std::int64_t>(of[at(pair * kSteps + n)]);
                         sum += v[at((n * kHeads + p[1]) * kTypes + type)];
                       }
                       return s + sum / std::max(count, 1.0);
                     }));
  const Scalar<f32> most = 90.0f;
  all.push_back({"log_length",
                 kernels::scores::log_length(most),
                 {most, into({1})},
                 {90.0},
                 [](double s, const ScorePair& p, const Values& v) {
                   return s * std::log(static_cast<double>(p[2] + 1)) / std::log(v[0]);
                 }});
  return all;
}

/// Checks the gradients of Q, K and V and that of the capture after a call.
inline void expect_captured_score(const BackwardCase& c, const CapturedScore& of) {
  SCOPED_TRACE(of.name);
  expect_backward(c);
  std::vector<double> want(of.values.size()), size(want.size());
  expected_gradients(c, [&](const ScorePair& at, double s, double dg, double dg_size) {
    for (std::size_t e = 0; e < want.size(); ++e) {
      const double slope = of.slope(s, at, e);
      want[e] += dg * slope, size[e] += dg_size * std::abs(slope);
    }
  });
  expect_gradient(of.name.c_str(), of.captured.into, want, size, roundoff(c.Q.dtype()));
}

}  // namespace tegula::test
