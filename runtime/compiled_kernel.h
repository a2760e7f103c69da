#pragma once
// A kernel ready to be launched: its artefact, the IR that the interpreter, the simulator and
// explain() read, and the artefact as each GPU of the process has loaded it.
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compilation.h"
#include "runtime/launch_args.h"
#include "runtime/loaded_artefact.h"
#include "tegula/stream.h"
#include "tegula/warning.h"

namespace tegula::runtime {

/// Immutable but for what is loaded or parsed at its first use; safe to launch from many threads.
class CompiledKernel {
 public:
  /// `of` was taken up to the verb `assemble`, or comes from the disk, and `artefact` is its
  /// result.
  CompiledKernel(Compilation of, Artefact artefact);
  ~CompiledKernel();
  CompiledKernel(const CompiledKernel&) = delete;
  CompiledKernel& operator=(const CompiledKernel&) = delete;

  /// Queues the kernel on the stream's device (runs it to the end on cpu and sim). Throws
  /// ProgramError with everything the interpreter or the simulator found.
  void launch(const Stream& stream, std::span<const LaunchArg> args) const;
  /// Loads it on the stream's device, and makes ready what the first launch on the stream would
  /// allocate.
  void prepare(const Stream& stream) const;
  /// The artefact on GPU `ordinal`, loaded by the first call.
  const LoadedArtefact& on(int ordinal) const;

  const Artefact& artefact() const { return *artefact_; }
  /// The simt form; that of a stored kernel is parsed now.
  const ir::Kernel& simt() const;

  const Device device;  ///< the first device compiled for; every GPU of its target runs it
  const ir::Kernel tile;
  const ir::PlanRequest planned;  ///< what was asked of the plan, an author's Schedule among it
  const ir::Plan plan;
  const std::vector<ir::Remark> remarks;
  const std::vector<ir::PassTiming> passes;
  const std::vector<VerbTiming> timings;
  const std::vector<Warning> warnings;

  /// Text of a verb's result, as TEGULA_DUMP writes it: key trace optimize emit assemble launch, or
  /// ptx.
  std::string dump(std::string_view verb) const;
  /// Plan, remarks, registers, shared memory, occupancy.
  std::string explain() const;
  /// Warnings about the code as it is on a device: of a GPU whose driver compiled the PTX, its too.
  std::vector<Warning> warnings_on(Device where) const;

 private:
  struct OnGpu;

  void run_on_cpu(std::span<const LaunchArg> args) const;
  void run_on_sim(std::span<const LaunchArg> args) const;
  const OnGpu* find(int ordinal) const;
  const AssembleReport& report() const;

  std::shared_ptr<const Artefact> artefact_;
  std::string source_;  ///< LLVM IR, where it was kept
  mutable std::once_flag parsed_;
  std::string simt_text_;
  mutable ir::Kernel simt_;
  mutable std::mutex loading_;
  mutable std::atomic<const OnGpu*> newest_ = nullptr;
  mutable std::unique_ptr<const OnGpu> loaded_;
};

}  // namespace tegula::runtime
