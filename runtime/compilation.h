#pragma once
// A kernel under compilation: what the verbs of runtime/jit.cpp hand on to each other.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/emit.h"
#include "ir/pipeline.h"
#include "runtime/artefact.h"
#include "tegula/device.h"

namespace tegula::runtime {

/// Request to compile a kernel for a device.
struct CompileRequest {
  std::string key;                    ///< text of the key, for dumps
  std::function<ir::Kernel()> trace;  ///< the tile form; called once
  Device device;
  /// Empty: the device's own, for which a GPU must be here.
  std::optional<ir::Target> target;
  std::optional<Backend> backend;  ///< empty: default_backend()
  std::optional<ir::Plan> plan;    ///< empty: the pass `plan` chooses
  /// Fields that the chosen plan must have. TEGULA_PLAN goes over them.
  ir::PlanRequest planned;
  bool lineinfo = false;
};

struct VerbTiming {
  std::string verb;
  double ms = 0;
};

struct Compilation {
  Device device;
  std::string key_text;
  std::string name;
  ir::Target target;
  /// Architecture to assemble for: the GPU's own where the code of an older target
  /// runs. Empty: the target.
  std::string assembler_target;
  Backend backend = Backend::Llvm;
  ir::Kernel tile{"", ir::Form::Tile};
  ir::Kernel simt{"", ir::Form::Simt};  ///< empty where a stored kernel has not been parsed
  std::string simt_text;                ///< text of a stored kernel's simt form
  ir::PlanRequest planned;              ///< what the request and TEGULA_PLAN ask of the plan
  ir::Plan plan;
  codegen::Emitted emitted;
  std::vector<char> cubin;
  AssembleReport report;
  std::vector<ir::Remark> remarks;
  std::vector<ir::PassTiming> passes;
  std::vector<VerbTiming> timings;
};

}  // namespace tegula::runtime
