#pragma once
// A kernel under compilation: the state that the verbs of runtime/jit.cpp pass to each other.
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
  /// Empty: the target of the device, which must be present.
  std::optional<ir::Target> target;
  std::optional<Backend> backend;  ///< empty: default_backend()
  std::optional<ir::Plan> plan;    ///< empty: the pass `plan` chooses
  /// Fields that the chosen plan must have. TEGULA_PLAN overrides them.
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
  /// Architecture to assemble for: the GPU's own if it runs code of an older target. Empty: the
  /// architecture of `target`.
  std::string assembler_target;
  Backend backend = Backend::Llvm;
  ir::Kernel tile{"", ir::Form::Tile};
  ir::Kernel simt{"", ir::Form::Simt};  ///< empty for a stored kernel that has not been parsed
  std::string simt_text;                ///< text of a stored kernel's simt form
  ir::PlanRequest planned;              ///< plan fields required by the request and TEGULA_PLAN
  ir::Plan plan;
  codegen::Emitted emitted;
  std::vector<char> cubin;
  AssembleReport report;
  std::vector<ir::Remark> remarks;
  std::vector<ir::PassTiming> passes;
  std::vector<VerbTiming> timings;
};

}  // namespace tegula::runtime
