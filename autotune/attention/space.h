#pragma once
// Spaces of attention's configurations: tiles of the forward pass, and splits of a tile's keys.
#include "autotune/space.h"
#include "tegula/attention_config.h"

namespace tegula::autotune {

using AttentionSpace = Space<AttentionProblem, AttentionConfig>;
using SplitKvSpace = Space<SplitKvProblem, SplitKv>;

const AttentionSpace& attention_space();
const SplitKvSpace& split_kv_space();

/// Returns the number of co-resident clusters of `cluster_ctas` CTAs. Some GPCs have leftover SMs
/// that form no cluster; clusters that have to wait take twice the time.
std::int64_t clusters_at_once(int cluster_ctas, const Limits& gpu);

}  // namespace tegula::autotune
