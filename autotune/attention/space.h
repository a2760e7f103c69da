#pragma once
// The spaces of attention's configurations: tiles of the forward pass, and splits of a tile's keys.
#include "autotune/space.h"
#include "tegula/attention_config.h"

namespace tegula::autotune {

using AttentionSpace = Space<AttentionProblem, AttentionConfig>;
using SplitKvSpace = Space<SplitKvProblem, SplitKv>;

const AttentionSpace& attention_space();
const SplitKvSpace& split_kv_space();

/// Clusters of so many CTAs that run at once: some GPCs have SMs left that make none, and what then
/// waits for others takes twice the time.
std::int64_t clusters_at_once(int cluster_ctas, const Limits& gpu);

}  // namespace tegula::autotune
