#include "autotune/race/statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tegula::autotune {

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::ranges::nth_element(samples, middle);
  if (samples.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(samples.begin(), middle)) / 2;
}

Estimate hodges_lehmann(std::span<const double> samples) {
  const auto n = static_cast<double>(samples.size());
  std::vector<double> means;
  means.reserve(samples.size() * (samples.size() + 1) / 2);
  for (std::size_t i = 0; i < samples.size(); ++i)
    for (std::size_t j = i; j < samples.size(); ++j) means.push_back((samples[i] + samples[j]) / 2);
  std::ranges::sort(means);
  const double rank = n * (n + 1) / 4 - 1.96 * std::sqrt(n * (n + 1) * (2 * n + 1) / 24);
  const auto cut = static_cast<std::size_t>(std::max(0.0, std::floor(rank)));
  const std::size_t m = means.size();
  const double value = (means[(m - 1) / 2] + means[m / 2]) / 2;
  std::vector<double> deviations;
  for (const double s : samples) deviations.push_back(std::abs(s - value));
  constexpr double kDeviationOfNormal = 1.4826;  // standard deviations per median deviation
  const double error = kDeviationOfNormal * median(std::move(deviations)) / std::sqrt(n);
  return {value, means[cut], means[m - 1 - cut], error, static_cast<int>(samples.size())};
}

}  // namespace tegula::autotune
