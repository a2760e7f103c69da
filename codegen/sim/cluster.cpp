// Runs the CTAs of a cluster alternately, with their barrier.
#include "codegen/sim/cluster.h"

#include <algorithm>

namespace tegula::sim {

Cluster::Cluster(Launch& launch, std::int64_t first)
    : rng_(launch.options.seed * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(first)) {
  const Grid& g = launch.grid;
  for (int rank = 0; rank < launch.program.kernel().info.cluster; ++rank) {
    const std::int64_t n = first + rank;
    ctas_.push_back(
        std::make_unique<Cta>(launch, *this, rank,
                              Grid{static_cast<int>(n % g[0]), static_cast<int>(n / g[0] % g[1]),
                                   static_cast<int>(n / g[0] / g[1])}));
  }
}

CtaStatus Cluster::run(std::int64_t instructions) {
  if (ctas_.size() > 1) return run_interleaved(instructions);
  const CtaStatus turn = ctas_.front()->run(instructions);
  if (turn != CtaStatus::Blocked) return turn;
  ctas_.front()->report_deadlock();
  return CtaStatus::Finished;
}

/// A CTA that cannot run may be waiting for another one. If all wait and none makes progress, they
/// are deadlocked, or, if some repeat a loop, wait for another cluster.
CtaStatus Cluster::run_interleaved(std::int64_t instructions) {
  constexpr std::int64_t kMost = 500;  // instructions of a CTA before another one runs
  while (instructions > 0) {
    std::vector<Cta*> live;
    for (auto& cta : ctas_)
      if (!cta->is_over()) live.push_back(cta.get());
    if (live.empty()) return CtaStatus::Finished;
    std::shuffle(live.begin(), live.end(), rng_);
    bool any = false, spins = false;
    for (Cta* cta : live) {
      const std::uint64_t before = cta->executed();
      const CtaStatus turn = cta->run(1 + static_cast<std::int64_t>(rng_() % kMost));
      if (turn == CtaStatus::Finished && !cta->is_complete()) return CtaStatus::Finished;
      const std::uint64_t done = cta->executed() - before;
      if (turn == CtaStatus::Spinning)
        spins = true;
      else
        any |= done != 0 || turn != CtaStatus::Blocked;
      instructions -= static_cast<std::int64_t>(done);
    }
    if (any) continue;
    if (spins) return CtaStatus::Spinning;
    for (Cta* cta : live) cta->report_deadlock();
    return CtaStatus::Finished;
  }
  return CtaStatus::Runnable;
}

void Cluster::report_spin() {
  for (auto& cta : ctas_)
    if (!cta->is_over()) cta->report_spin();
}

std::vector<std::pair<std::int64_t, std::vector<Finding>>> Cluster::finish() {
  std::vector<std::pair<std::int64_t, std::vector<Finding>>> found;
  for (auto& cta : ctas_)
    if (auto list = cta->finish(); !list.empty())
      found.emplace_back(cta->cta_number(), std::move(list));
  return found;
}

int Cluster::missing_warps() const {
  int missing = 0;
  for (const auto& cta : ctas_)
    for (int w = 0; w < cta->agents.warps; ++w) {
      const Warp& warp = cta->warp(w);
      missing += !warp.done && warp.cluster_phase != barrier.phase ? 1 : 0;
    }
  return missing;
}

void Cluster::complete_if_all_arrived() {
  if (size() > 1 && missing_warps() != 0) return;
  barrier.done = std::move(barrier.arriving);
  barrier.arriving.clear();
  ++barrier.phase;
}

}  // namespace tegula::sim
