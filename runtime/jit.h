#pragma once
// From a traced kernel to something that can be launched: the six verbs key, trace, optimize, emit,
// assemble, launch.
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codegen/emit.h"
#include "ir/pipeline.h"
#include "runtime/assemble.h"
#include "runtime/recipe.h"
#include "tegula/device.h"
#include "tegula/stream.h"
#include "tegula/warning.h"

namespace tegula::runtime {

enum class Backend : std::uint8_t { Llvm, Nvrtc };
std::string_view name(Backend b);
/// TEGULA_BACKEND, else LLVM where its module is found, else NVRTC.
Backend default_backend();

/// What to compile, for which device, and how.
struct CompileRequest {
  std::string key;                    ///< text of the key, for dumps
  std::function<ir::Kernel()> trace;  ///< the tile form; called once
  Device device;
  std::string target;              ///< "sm_90a"; empty: the device's own
  std::optional<Backend> backend;  ///< empty: default_backend()
  std::optional<ir::Plan> plan;    ///< empty: the pass `plan` chooses
  /// Fields that the plan so chosen must have (Plan::change), and who asks for them. TEGULA_PLAN
  /// goes over these.
  std::string plan_changes;
  Loc changed_at;
  bool lineinfo = false;
};

struct VerbTiming {
  std::string verb;
  double ms = 0;
};

/// A kernel ready for one device. Immutable; safe to launch from many threads.
class CompiledKernel {
 public:
  /// Queues the kernel (runs it to the end on cpu and sim). Throws ProgramError with everything the
  /// interpreter or the simulator found.
  void launch(const Stream& stream, std::span<const LaunchArg> args) const;
  /// Makes ready what the first launch on the stream would allocate.
  void prepare(const Stream& stream) const;

  Device device;
  std::string name;
  std::string key_text;
  Backend backend = Backend::Llvm;
  std::string target;
  ir::Kernel tile{"", ir::Form::Tile};
  ir::Kernel simt{"", ir::Form::Simt};
  ir::Plan plan;
  LaunchRecipe recipe;
  codegen::Emitted emitted;
  std::vector<char> cubin;
  AssembleReport report;
  std::vector<ir::Remark> remarks;
  std::vector<ir::PassTiming> passes;
  std::vector<VerbTiming> timings;
  std::vector<Warning> warnings;
  std::optional<LaunchPlan> gpu;  ///< on cuda

  /// Text of a verb's result, as TEGULA_DUMP writes it: key trace optimize emit assemble launch, or
  /// ptx.
  std::string dump(std::string_view verb) const;
  /// Plan, remarks, registers, shared memory, occupancy.
  std::string explain() const;
  /// CTAs that one SM holds at once, from registers, threads and shared memory; registers count
  /// once assembled.
  int ctas_per_sm() const;
};

/// Passes of the verb `optimize`, in order: those of ir/passes and the lowering.
std::vector<ir::Pass> optimize_passes();
/// The simt form's clean-up, run last.
std::shared_ptr<const CompiledKernel> compile(const CompileRequest& request);

}  // namespace tegula::runtime
