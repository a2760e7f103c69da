#pragma once
#include <vector>

namespace tegula::tools {

/// Returns Spearman's rank correlation of two lists, from -1 to 1; 0 for fewer than three numbers.
/// Ties share the mean of their ranks.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace tegula::tools
