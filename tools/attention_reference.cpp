#include "tools/attention_reference.h"

#include <algorithm>
#include <cmath>

namespace tegula::tools {
namespace {

double inner(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// Weights and outputs are each rounded to bf16 (unit roundoff 2^-8). The errors of f32 sums and
/// approximate exponentials are far below the remaining 2^-12.
double output_bound(double magnitude) {
  return magnitude * (2 * std::ldexp(1, -8) + std::ldexp(1, -12));
}

/// All values up to the logarithm are at least f32.
double lse_bound(double lse) { return 1e-4 * (1 + std::abs(lse)); }

void raise(Agreement& a, double error, double bound) {
  // The negated comparison treats NaN as a disagreement.
  if (!(error <= a.worst)) a.worst = error;
  const double share = error == 0 ? 0 : error / bound;
  if (!(share <= a.relative_to_bound)) a.relative_to_bound = std::isnan(share) ? INFINITY : share;
}

}  // namespace

ReferenceRow attention_row(const ReferenceSpec& spec, int head, int position,
                           std::span<const double> q, std::span<const double> k,
                           std::span<const double> v) {
  const std::size_t d = q.size();
  const int length = static_cast<int>(k.size() / d);
  std::vector<double> weights(static_cast<std::size_t>(length), -INFINITY);
  double top = -INFINITY, sum = 0;
  for (int j = 0; j < length; ++j) {
    if (!spec.mask(position, j)) continue;
    weights[j] = spec.score(spec.scale * inner(q, k.subspan(j * d, d)), head, position, j);
    top = std::max(top, weights[j]);
  }
  ReferenceRow row{std::vector<double>(d), std::vector<double>(d), -INFINITY};
  if (top == -INFINITY) return row;
  for (double& w : weights) sum += w = std::exp(w - top);
  for (int j = 0; j < length; ++j) {
    if (weights[j] == 0) continue;
    for (std::size_t i = 0; i < d; ++i) {
      row.out[i] += weights[j] / sum * v[j * d + i];
      row.magnitude[i] += weights[j] / sum * std::abs(v[j * d + i]);
    }
  }
  row.lse = top + std::log(sum);
  return row;
}

Agreement compare_head(const ReferenceSpec& spec, int head, const Tensor& Q, const Tensor& K,
                       const Tensor& V, const Tensor& O, const Tensor& Lse, std::int64_t first,
                       std::int64_t last) {
  const auto q = Q.to_doubles(), k = K.to_doubles(), v = V.to_doubles(), o = O.to_doubles(),
             lse = Lse.to_doubles();
  const auto d = static_cast<std::size_t>(Q.size(1));
  Agreement result;
  for (std::int64_t i = first; i < last; ++i) {
    const ReferenceRow row =
        attention_row(spec, head, static_cast<int>(i), std::span(q).subspan(i * d, d), k, v);
    for (std::size_t c = 0; c < d; ++c)
      raise(result, std::abs(row.out[c] - o[i * d + c]), output_bound(row.magnitude[c]));
    // The logarithm affects relative_to_bound, but not the largest error of an output.
    Agreement of_lse;
    if (lse[i] != row.lse) raise(of_lse, std::abs(lse[i] - row.lse), lse_bound(row.lse));
    result.relative_to_bound = std::max(result.relative_to_bound, of_lse.relative_to_bound);
  }
  return result;
}

}  // namespace tegula::tools
