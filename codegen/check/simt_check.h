#pragma once
// Static check of the simt form, before it is emitted: follows the ops that the lowering adds to a
// kernel (proxy fences, barriers, bulk groups, wgmma groups, mbarrier counts) along the structured
// program, without data and without running it. `docs/simulator.md` lists its limits.
#include <string>
#include <vector>

#include "codegen/sim/simulator.h"
#include "ir/pipeline.h"

namespace tegula::codegen {

/// A fault under the name that the simulator has for it, at two ops.
struct SimtFault {
  sim::Detector kind{};
  std::string what;
  ir::OpId op;     ///< op with the fault
  ir::OpId other;  ///< the other side; may be none

  /// `early-overwrite: ..: stmatrix at k.cpp:12; tma_store at k.cpp:12`
  std::string str(const ir::Kernel& simt) const;
};

/// All faults of a kernel in simt form, each pair of ops once. A fault is reported only if the path
/// in the program certainly has it; whether the path is ever taken is not asked.
std::vector<SimtFault> find_simt_faults(const ir::Kernel& simt);

/// The pass: throws InternalError where there is a fault, and changes nothing.
bool check_simt(ir::Kernel& kernel, ir::PassContext& context);

}  // namespace tegula::codegen
