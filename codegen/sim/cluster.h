#pragma once
// The CTAs that run at once and read each other's shared memory; one alone if the kernel has no
// clusters.
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "codegen/sim/cta.h"

namespace tegula::sim {

/// barrier.cluster: a phase is over when every warp that has not exited has arrived.
struct ClusterBarrier {
  std::int64_t phase = 0;
  VisibleClocks arriving, done;  ///< clocks of this phase's arrivals; of the previous phase's
};

class Cluster {
 public:
  /// `first`: the number of its first CTA in the launch.
  Cluster(Launch& launch, std::int64_t first);
  Cluster(const Cluster&) = delete;

  /// Runs for about `instructions` instructions. Never returns Blocked: that is reported.
  CtaStatus run(std::int64_t instructions);
  /// Reports that no other cluster will change what this one, which spins, waits for.
  void report_spin();
  /// By CTA number. To be called once, at the end.
  std::vector<std::pair<std::int64_t, std::vector<Finding>>> finish();

  // ---- for ops ----------------------------------------------------------------------------------
  int size() const { return static_cast<int>(ctas_.size()); }
  Cta& cta(int rank) { return *ctas_[static_cast<std::size_t>(rank)]; }
  ClusterBarrier barrier;
  /// Ends the barrier's phase if all have arrived: called when a warp arrived or exited.
  void settle();
  int missing_warps() const;

  /// CTA `rank` seen through addresses that map_shared gives: the rank above, the address below.
  static constexpr int kRankShift = 24;

 private:
  CtaStatus run_interleaved(std::int64_t instructions);

  std::vector<std::unique_ptr<Cta>> ctas_;
  std::mt19937_64 rng_;
};

}  // namespace tegula::sim
