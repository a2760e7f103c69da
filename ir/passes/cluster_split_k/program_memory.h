#pragma once
// Memory that the programs of a cluster would meet in, were the tile of one dealt to them: in one
// program loads and stores come one after the other, in several only what `cluster_sum` separates
// does.
#include <span>
#include <string>

#include "ir/passes/cluster_split_k/program_share.h"

namespace tegula::ir {

/// A store behind the sums.
struct PartialStore {
  OpId op;
  int dim;  ///< of what is stored, along which programs have parts
};

/// Whether it reads memory and does nothing else.
bool reads_memory(const Kernel& k, OpId op);

/// Why a program would read what another one stores, or both store the same; empty if neither.
/// Stores are in the order of the body; `loops` are those whose sums are shared. Different
/// parameters are taken to be different memory.
std::string why_programs_meet(const Kernel& k, ProgramShare& share,
                              std::span<const PartialStore> stores, std::span<const OpId> loops);

}  // namespace tegula::ir
