#pragma once
// Memory hazards between the CTAs of a cluster that divide the tile of one program: within a
// program loads and stores come one after the other, between CTAs only `cluster_reduce_scatter`
// orders them.
#include <span>
#include <string>

#include "ir/passes/cluster_split_k/cluster_slice.h"

namespace tegula::ir {

/// A store after the accumulators are reduced.
struct PartialStore {
  OpId op;
  int dim;  ///< dimension of the stored tile in which CTAs have slices
};

/// Whether it reads memory and does nothing else.
bool reads_memory(const Kernel& k, OpId op);

/// Why a CTA would read a store of another one, or both store to the same element; empty if
/// neither. Stores are in the order of the body; `loops` are those whose accumulators are divided.
/// Different parameters are taken to be different memory.
std::string why_ctas_conflict(const Kernel& k, ClusterSlicer& share,
                              std::span<const PartialStore> stores, std::span<const OpId> loops);

}  // namespace tegula::ir
