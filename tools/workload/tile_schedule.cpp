#include "tools/workload/tile_schedule.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace tegula {
namespace {

/// Cost of a tile's prologue and epilogue, in steps.
constexpr std::int64_t kEnds = 1;

std::int64_t by_counter(std::span<const std::int64_t> times, std::size_t programs) {
  std::priority_queue<std::int64_t, std::vector<std::int64_t>, std::greater<>> free_at;
  for (std::size_t p = 0; p < programs; ++p) free_at.push(0);
  std::int64_t last = 0;
  for (const std::int64_t t : times) {
    const std::int64_t end = free_at.top() + t;
    free_at.pop();
    free_at.push(end);
    last = std::max(last, end);
  }
  return last;
}

/// Waves of two tiles per program in serpentine order; the remaining tiles are assigned one per
/// program if that suffices.
std::int64_t by_static_order(std::span<const std::int64_t> times, std::size_t programs) {
  std::vector<std::int64_t> busy(programs);
  const std::size_t round = 2 * programs;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const std::size_t remaining = times.size() - i / round * round;
    const std::size_t place = remaining <= programs ? i % round : i % round / 2;
    busy[i / round % 2 == 0 ? place : programs - 1 - place] += times[i];
  }
  return *std::ranges::max_element(busy);
}

}  // namespace

std::vector<std::int64_t> tile_times(std::span<const std::int64_t> steps, std::int64_t matrices,
                                     TileOrderKind ordering) {
  const std::size_t n = steps.size();
  std::vector<std::int64_t> of_head, times;
  for (std::size_t i = 0; i < n; ++i)
    of_head.push_back(kEnds + steps[i % 2 == 0 ? n - 1 - i / 2 : i / 2]);
  if (ordering == TileOrderKind::lpt_per_head) std::ranges::sort(of_head, std::greater<>());
  for (std::int64_t m = 0; m < matrices; ++m)
    times.insert(times.end(), of_head.begin(), of_head.end());
  if (ordering == TileOrderKind::lpt) std::ranges::sort(times, std::greater<>());
  return times;
}

std::int64_t makespan(std::span<const std::int64_t> times, int programs,
                      TileSchedulerKind scheduler) {
  if (times.empty()) return 0;
  const std::size_t used = std::min(times.size(), static_cast<std::size_t>(programs));
  return scheduler == TileSchedulerKind::static_ ? by_static_order(times, used)
                                                 : by_counter(times, used);
}

double makespan_ratio(std::span<const std::int64_t> times, int programs,
                      TileSchedulerKind scheduler) {
  if (times.empty()) return 1;
  const double even =
      static_cast<double>(std::accumulate(times.begin(), times.end(), std::int64_t{0})) / programs;
  const auto longest = static_cast<double>(*std::ranges::max_element(times));
  return static_cast<double>(makespan(times, programs, scheduler)) / std::max(even, longest);
}

}  // namespace tegula
