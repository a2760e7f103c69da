#include "tools/rank_correlation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tegula::tools {
namespace {

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    const double mean = static_cast<double>(first + last - 1) / 2;
    for (std::size_t i = first; i < last; ++i) ranks[order[i]] = mean;
  }
  return ranks;
}

}  // namespace

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::size_t n = a.size();
  if (n < 3) return 0;
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = static_cast<double>(n - 1) / 2;
  double both = 0, of_x = 0, of_y = 0;
  for (std::size_t i = 0; i < n; ++i) {
    both += (x[i] - mean) * (y[i] - mean);
    of_x += (x[i] - mean) * (x[i] - mean);
    of_y += (y[i] - mean) * (y[i] - mean);
  }
  return of_x * of_y > 0 ? both / std::sqrt(of_x * of_y) : 0;
}

}  // namespace tegula::tools
