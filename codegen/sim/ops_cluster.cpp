// Ops of a cluster: rank, addresses of other CTAs' shared memory, the cluster barrier.
#include <fmt/format.h>

#include "codegen/sim/cluster.h"

namespace tegula::sim {

Step sim_CtaRank(Warp& w, const Instr& i) {
  std::fill_n(w.cells(i.out[0]), kLanes, ir::Cell{w.cta.rank});
  w.wrote_clean(i.out[0]);
  return Step::Next;
}

Step sim_MapShared(Warp& w, const Instr& i) {
  w.cta.must_be_defined(w, i, i.in[0], "the shared address");
  w.cta.must_be_defined(w, i, i.in[1], "the rank");
  for_lanes(w.mask, [&](int lane) {
    const std::int64_t rank = w.cells(i.in[1])[lane].i;
    if (rank < 0 || rank >= w.cta.cluster.size())
      w.cta.report(w, i, Detector::SharedBounds,
                   fmt::format("there is no CTA {} in a cluster of {}", rank, w.cta.cluster.size()),
                   lane);
    // Encodes rank 0 as 1, so that addresses that were not mapped are detected.
    w.cells(i.out[0])[lane].i =
        w.cells(i.in[0])[lane].i - w.cta.shared.window() + ((rank + 1) << Cluster::kRankShift);
  });
  w.wrote_clean(i.out[0]);
  return Step::Next;
}

Cta* Cta::map_cluster_address(Warp& w, const Instr& i, std::uint32_t& address, int lane) {
  const std::uint32_t mapped = address;
  const int owner = static_cast<int>(mapped >> Cluster::kRankShift) - 1;
  address &= (1u << Cluster::kRankShift) - 1;
  if (owner < 0 || owner >= cluster.size()) {
    report(w, i, Detector::SharedBounds,
           fmt::format("{} uses {:#x}, which map_shared did not return", op_name(kernel(), i.id),
                       mapped),
           lane, mapped);
    return nullptr;
  }
  Cta& target = cluster.cta(owner);
  address += target.shared.window();
  if (&target == this) return &target;
  if (target.is_over()) {
    report_exit_race(i.id, owner, w.index);
    return nullptr;
  }
  const Agent me = agents.of_lane(w.index, lane);
  target.remote_accesses_[me] = {w.known.generic.at(me), i.id, &w};
  return &target;
}

Cta* Cta::cluster_read(Warp& w, const Instr& i, std::uint32_t& address, std::uint32_t bytes,
                       int lane) {
  Cta* const target = map_cluster_address(w, i, address, lane);
  if (!target) return nullptr;
  const std::uint32_t here = address - target->shared.window() + shared.window();
  if (!shared_access(w, i, here, bytes, lane)) return nullptr;
  target->generic_read(w, i, address, bytes, lane);
  return target;
}

/// Reports accesses by other CTAs that are not ordered before this CTA's exit, which ends the
/// lifetime of its memory.
void Cta::check_remote_accesses() {
  VisibleClocks all;
  for (Warp& w : warps_) all.join(w.known);
  for (const auto& [agent, access] : remote_accesses_)
    if (!all.generic.covers(agent, access.tick))
      access.by->cta.report_exit_race(access.op, rank, access.by->index);
}

void Cta::report_exit_race(ir::OpId op, int owner, int warp) {
  findings.add({Detector::RemoteExit, op, {}, warp},
               fmt::format("{}: {} of CTA {} in the cluster uses that of CTA {}",
                           doc(Detector::RemoteExit), op_name(kernel(), op), rank, owner));
}

namespace {

std::string describe_cluster_barrier(Warp& w) {
  return fmt::format("the cluster's barrier ({} warps are missing)", w.cta.cluster.missing_warps());
}

}  // namespace

Step sim_ClusterArrive(Warp& w, const Instr& i) {
  ClusterBarrier& b = w.cta.cluster.barrier;
  if (w.cluster_phase >= 0)
    w.cta.report(w, i, Detector::BarrierCount,
                 "a warp arrives at the cluster's barrier again before it has waited");
  w.cluster_phase = b.phase;
  b.arriving.join(w.known);
  w.cta.tick(w);
  w.cta.cluster.complete_if_all_arrived();
  return Step::Next;
}

Step sim_ClusterWait(Warp& w, const Instr& i) {
  ClusterBarrier& b = w.cta.cluster.barrier;
  if (w.cluster_phase < 0) {
    w.cta.report(w, i, Detector::BarrierCount,
                 "a warp waits for the cluster's barrier without having arrived");
    return Step::Next;
  }
  if (w.cluster_phase == b.phase) {
    w.waiting = {describe_cluster_barrier, i.id};
    return Step::Blocked;
  }
  w.cluster_phase = -1;
  w.known.join(b.done);
  w.cta.sync_lanes(w);
  return Step::Next;
}

}  // namespace tegula::sim
