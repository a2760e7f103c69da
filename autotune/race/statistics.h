#pragma once
// Estimates of a location that a few wild samples do not move.
#include <span>
#include <vector>

namespace tegula::autotune {

/// Hodges-Lehmann: the median of the means of all pairs, with the 95 % interval of Wilcoxon's
/// signed-rank test.
struct Estimate {
  double value = 0, low = 0, high = 0;
  int samples = 0;
  /// As if the interval were a normal distribution's.
  double standard_error() const { return (high - low) / (2 * 1.96); }
};

/// At least one sample.
Estimate hodges_lehmann(std::span<const double> samples);
double median(std::vector<double> samples);

}  // namespace tegula::autotune
