// Checks that cluster barriers precede and follow accesses to memory of other CTAs of the cluster.
#include "codegen/check/barriers.h"

namespace tegula::codegen {

using namespace ir;
using sim::Detector;
using Remote = SharedState::Remote;

bool ClusterCheck::is_for_cluster(const OpData& d) {
  return d.opcode == Opcode::LdCluster || d.attrs.i(AttrName::cluster_ctas, 1) > 1 ||
         d.attrs.s(AttrName::scope) == "cluster";
}

void ClusterCheck::visit(SharedState& state, OpId op) {
  const OpData& d = c_.k[op];
  if (!is_for_cluster(d)) return;
  const bool reads = d.opcode == Opcode::LdCluster;
  if (!state.is_after_cluster_barrier)
    c_.report(reads ? Detector::SharedRace : Detector::MbarrierMisuse,
              reads ? "another CTA's memory is read without a preceding cluster barrier"
                    : "another CTA's mbarrier is used without a preceding cluster barrier",
              op);
  // No barrier must follow a TMA load: the receiving CTA waits for it.
  if (d.opcode == Opcode::TmaLoad) return;
  state.remote = Remote::Open;
  state.remote_use = op;
}

void ClusterCheck::arrive(SharedState& state) {
  if (state.remote == Remote::Open) state.remote = Remote::Arrived;
}

void ClusterCheck::wait(SharedState& state) {
  if (state.remote == Remote::Arrived) state.remote = Remote::None;
  state.is_after_cluster_barrier = true;
  join_warpgroups(state, c_.places, warpgroups_of(threads_between(0, c_.k.info.threads)));
}

void ClusterCheck::exit(const SharedState& state) {
  if (state.remote != Remote::None)
    c_.report(Detector::RemoteExit,
              "a CTA exits while others may use its memory: no cluster barrier follows",
              state.remote_use);
}

}  // namespace tegula::codegen
