#pragma once
// Location estimates that are robust against outliers.
#include <span>
#include <vector>

namespace tegula::autotune {

/// Hodges-Lehmann: the median of the means of all pairs, with the 95 % interval of Wilcoxon's
/// signed-rank test.
struct Estimate {
  double value = 0, low = 0, high = 0;
  double standard_error = 0;  ///< from the median deviation, so that outliers do not widen it
  int samples = 0;
};

/// Requires at least one sample.
Estimate hodges_lehmann(std::span<const double> samples);
double median(std::vector<double> samples);

}  // namespace tegula::autotune
