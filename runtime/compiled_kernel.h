#pragma once
// A kernel that is ready to launch: its artefact, the IR that the interpreter, the simulator and
// explain() read, and the artefact as loaded on each GPU of the process.
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

/// Immutable except for data loaded or parsed at its first use; safe to launch from many threads.
class CompiledKernel {
 public:
  /// `of` was compiled up to the verb `assemble` or comes from the disk, and `artefact` is its
  /// result.
  CompiledKernel(Compilation of, Artefact artefact);
  ~CompiledKernel();
  CompiledKernel(const CompiledKernel&) = delete;
  CompiledKernel& operator=(const CompiledKernel&) = delete;

  /// Queues the kernel on the stream's device; on cpu and sim, runs it to completion. Throws
  /// ProgramError with everything that the interpreter or the simulator found.
  void launch(const Stream& stream, std::span<const LaunchArg> args) const;
  /// Loads the kernel on the stream's device, and allocates what its first launch on the stream
  /// would allocate.
  void prepare(const Stream& stream) const;
  /// Returns the artefact on GPU `ordinal`, which the first call loads.
  const LoadedArtefact& on(int ordinal) const;

  const Artefact& artefact() const { return *artefact_; }
  /// Returns the simt form; for a stored kernel, the first call parses it.
  const ir::Kernel& simt() const;

  const Device device;  ///< the first device compiled for; every GPU of its target runs it
  const ir::Kernel tile;
  const ir::PlanRequest planned;  ///< requested plan fields, including the author's Schedule
  const ir::Plan plan;
  const std::vector<ir::Remark> remarks;
  const std::vector<ir::PassTiming> passes;
  const std::vector<VerbTiming> timings;
  const std::vector<Warning> warnings;

  /// Returns the text of a verb's result, as TEGULA_DUMP writes it. Verbs: key trace optimize emit
  /// assemble launch, or ptx.
  std::string dump(std::string_view verb) const;
  /// Returns the plan, remarks, registers, shared memory and occupancy as text.
  std::string explain() const;
  /// Returns the warnings about the code on a device, including those of its driver if that
  /// compiled the PTX.
  std::vector<Warning> warnings_on(Device where) const;

 private:
  struct OnGpu;

  void run_on_cpu(std::span<const LaunchArg> args) const;
  void run_on_sim(std::span<const LaunchArg> args) const;
  const OnGpu* find(int ordinal) const;
  const AssembleReport& report() const;

  std::shared_ptr<const Artefact> artefact_;
  std::string source_;  ///< LLVM IR, if it was kept
  mutable std::once_flag parsed_;
  std::string simt_text_;
  mutable ir::Kernel simt_;
  mutable std::mutex loading_;
  mutable std::atomic<const OnGpu*> newest_ = nullptr;
  mutable std::unique_ptr<const OnGpu> loaded_;
};

}  // namespace tegula::runtime
