#pragma once
#include <vector>

namespace tegula::tools {

/// Spearman's correlation of two lists of numbers, from -1 to 1; 0 for fewer than three. Equal
/// numbers share the mean of their ranks.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace tegula::tools
