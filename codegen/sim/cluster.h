#pragma once
// The CTAs that run together and read each other's shared memory; a single CTA if the kernel has no
// clusters.
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "codegen/sim/cta.h"

namespace tegula::sim {

/// barrier.cluster: a phase completes when every warp that has not exited has arrived.
struct ClusterBarrier {
  std::int64_t phase = 0;
  VisibleClocks arriving, done;  ///< clocks of this phase's arrivals; clocks of the previous
                                 ///< phase's arrivals
};

class Cluster {
 public:
  /// `first`: number of its first CTA in the launch.
  Cluster(Launch& launch, std::int64_t first);
  Cluster(const Cluster&) = delete;

  /// Runs for about `instructions` instructions. Never returns Blocked, which it reports as a
  /// deadlock.
  CtaStatus run(std::int64_t instructions);
  /// Reports that this cluster spins on memory that no other cluster will change.
  void report_spin();
  /// Returns the findings by CTA number. Call once, at the end.
  std::vector<std::pair<std::int64_t, std::vector<Finding>>> finish();

  // ---- for ops ----------------------------------------------------------------------------------
  int size() const { return static_cast<int>(ctas_.size()); }
  Cta& cta(int rank) { return *ctas_[static_cast<std::size_t>(rank)]; }
  ClusterBarrier barrier;
  /// Completes the barrier's phase if all warps have arrived: called when a warp arrives or exits.
  void complete_if_all_arrived();
  int missing_warps() const;

  /// map_shared puts the CTA's rank above this bit of an address and the offset below it.
  static constexpr int kRankShift = 24;

 private:
  CtaStatus run_interleaved(std::int64_t instructions);

  std::vector<std::unique_ptr<Cta>> ctas_;
  std::mt19937_64 rng_;
};

}  // namespace tegula::sim
