#pragma once
// Static check of the simt form before emission: follows the ops that the lowering adds to a kernel
// (proxy fences, barriers, bulk groups, wgmma groups, mbarrier counts) along the structured
// program, without data and without executing it. `docs/simulator.md` lists its limits.
#include <string>
#include <vector>

#include "codegen/sim/simulator.h"
#include "ir/pipeline.h"

namespace tegula::codegen {

/// A fault at two ops, named as in the simulator.
struct SimtFault {
  sim::Detector kind{};
  std::string what;
  ir::OpId op;     ///< op with the fault
  ir::OpId other;  ///< the other side; may be none

  /// `early-overwrite: ..: stmatrix at k.cpp:12; tma_store at k.cpp:12`
  std::string str(const ir::Kernel& simt) const;
};

/// Returns all faults of a kernel in simt form, one per pair of ops. A fault is reported only if it
/// certainly occurs on a path of the program; the path itself may never be taken.
std::vector<SimtFault> find_simt_faults(const ir::Kernel& simt);

/// The pass: throws InternalError if there is a fault, and changes nothing.
bool check_simt(ir::Kernel& kernel, ir::PassContext& context);

}  // namespace tegula::codegen
