// Splits of a tile's keys over CTAs: the space, and the estimated time.
#include <algorithm>
#include <array>
#include <bit>

#include "autotune/attention/space.h"
#include "autotune/calls/decision.h"
#include "tegula/attention_tiles.h"

namespace tegula {
namespace autotune {
namespace split_kv_rules {
namespace {

using P = SplitKvProblem;
using C = SplitKv;

constexpr int kMaxClusters = kMaxSplitKv / 2;
constexpr auto kCounts = [] {
  std::array<int, kMaxClusters> counts{};
  for (int i = 0; i < kMaxClusters; ++i) counts[static_cast<std::size_t>(i)] = i + 1;
  return counts;
}();
constexpr int kClusters[] = {1, 8, 4, 2};
constexpr Axis<C> kAxes[] = {
    {"cluster_ctas", [](C& c, int v) { c.cluster_ctas = v; }, kClusters},
    {"clusters", [](C& c, int v) { c.clusters = v; }, kCounts},
};

/// Keys per CTA below which the softmax costs more than the CTA's share of the keys saves.
constexpr std::int64_t kMinKeys = 128;

/// Returns the most clusters per tile that are co-resident for all tiles and have enough keys.
std::int64_t room(const P& p, const C& c, const Limits& gpu) {
  return std::min({clusters_at_once(c.cluster_ctas, gpu) / std::max<std::int64_t>(p.tiles, 1),
                   p.keys / (c.cluster_ctas * kMinKeys),
                   std::int64_t{kMaxSplitKv / c.cluster_ctas}});
}

bool has_no_clusters(const P&, const C& c, const Limits& gpu) {
  return c.cluster_ctas > 1 && !gpu.target->has_clusters;
}
bool splits_without_cluster(const P&, const C& c, const Limits&) {
  return c.cluster_ctas == 1 && c.clusters > 1;
}
bool is_not_at_once(const P& p, const C& c, const Limits& gpu) {
  return c.clusters > 1 && c.cluster_ctas > 1 &&
         (p.tiles * c.clusters > clusters_at_once(c.cluster_ctas, gpu) || c.all() > kMaxSplitKv);
}
bool has_no_room(const P& p, const C& c, const Limits& gpu) {
  return c.cluster_ctas > 1 && c.clusters > room(p, c, gpu);
}
/// Returns true for numbers of clusters other than 1 (combined through shared memory), 8 (combined
/// in one step) and the maximum (the highest read bandwidth); these dominate the others.
bool is_between(const P& p, const C& c, const Limits& gpu) {
  return c.cluster_ctas > 1 && c.clusters != 1 && c.clusters != 8 && c.clusters != room(p, c, gpu);
}

using enum Severity;
constexpr Rule<P, C> kRules[] = {
    {"target", "the target has no clusters", refused, 0, has_no_clusters},
    {"no_cluster", "CTAs that share a tile form clusters", refused, 1, splits_without_cluster,
     true},
    {"at_once", "all clusters must be co-resident, with at most 256 CTAs per tile", refused, 1,
     is_not_at_once, true},
    {"room", "a CTA has too few keys", dominated, 1, has_no_room, true},
    {"between", "fewer clusters are combined equally fast", dominated, 1, is_between},
};

/// Returns the estimated time. Each CTA reads a part of its tile's keys and values, limited by its
/// own bandwidth and by that of all CTAs. Then the CTAs of a cluster exchange results through
/// shared memory, and clusters through global memory, eight at a time.
double microseconds_of(const P& p, const C& c, const AttentionRates& r) {
  const auto tile = static_cast<double>(p.key_bytes) * static_cast<double>(p.keys),
             tiles = static_cast<double>(p.tiles), ctas = static_cast<double>(c.all());
  const double reading =
      std::max(tile / (r.cta_bytes_per_us * ctas), tile * tiles / r.memory_bytes_per_us);
  double combining = 0;
  if (c.cluster_ctas > 1)
    combining = r.cluster_us +
                r.cluster_doubling_us * std::bit_width(static_cast<unsigned>(c.cluster_ctas) / 2);
  if (c.clusters > 1)
    combining += r.exchange_us + r.exchange_eight_us * static_cast<double>((c.clusters - 1) / 8);
  return reading + combining;
}

}  // namespace
}  // namespace split_kv_rules

std::int64_t clusters_at_once(int cluster_ctas, const Limits& gpu) {
  return (cluster_ctas <= 2 ? gpu.num_sms : gpu.num_sms - gpu.leftover_sms) / cluster_ctas;
}

const SplitKvSpace& split_kv_space() {
  using namespace split_kv_rules;
  static const SplitKvSpace space{
      kAxes,
      kRules,
      [](const P&, const Limits&) { return C{}; },
      [](C c, const P&, const Limits&) { return c; },
      [](const P& p, const C& c, const DeviceProfile& gpu) {
        return microseconds_of(p, c, gpu.attention) * 1000 * gpu.clock_ghz;
      },
      [](const P&, const C& c, const Limits&) -> std::uint64_t { return hash_of(c); }};
  return space;
}

}  // namespace autotune

SplitKv choose_split_kv(const SplitKvProblem& problem, const DeviceProfile& gpu) {
  return autotune::choose(problem, autotune::split_kv_space(), gpu).config;
}
SplitKv choose_split_kv(const SplitKvProblem& problem, Device device) {
  return autotune::decide({"attention_split_kv"}, problem, autotune::split_kv_space(), device);
}

SplitKv given_split_kv(int ctas, std::int64_t tiles, const DeviceProfile& profile) {
  const autotune::Limits gpu = autotune::limits_of(profile);
  int largest = 1;
  for (const int n : kSplitKvClusters) {
    if (n == 1 || ctas % n != 0) continue;
    largest = std::max(largest, n);
    const bool are_several = tiles * (ctas / n) <= autotune::clusters_at_once(n, gpu);
    if (n == ctas || are_several) return {n, ctas / n};
  }
  return {largest, 1};
}

}  // namespace tegula
