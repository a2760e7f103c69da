#pragma once
// An artefact on one GPU: its image in the driver, and all launch data that does not change between
// calls.
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/artefact.h"
#include "runtime/launch.h"
#include "runtime/launch_args.h"
#include "tegula/stream.h"

namespace tegula::runtime {

/// Immutable except for its cache of tensor maps; safe to launch from many threads.
class LoadedArtefact {
 public:
  /// Loads the image on GPU `ordinal`. Throws DeviceError if the driver or the GPU rejects it, and
  /// InternalError if the driver rejects our PTX.
  LoadedArtefact(std::shared_ptr<const Artefact> artefact, int ordinal);

  /// Queues the kernel on a stream of this GPU. Throws CompileError for a grid that no GPU
  /// supports.
  void launch(const Stream& stream, std::span<const LaunchArg> args) const;
  /// Allocates what the first launch on the stream would allocate.
  void prepare(const Stream& stream) const;

  int ordinal() const { return plan_.kernel().ordinal; }
  const PreparedLaunch& plan() const { return plan_; }
  const EncodedMaps& maps() const { return maps_; }
  /// Returns the assembler's report, or the driver's if it compiled the PTX.
  const AssembleReport& report() const { return report_; }
  double load_ms() const { return load_ms_; }

 private:
  std::int64_t resident_ctas() const;

  std::shared_ptr<const Artefact> artefact_;
  AssembleReport report_;
  double load_ms_ = 0;
  EncodedMaps maps_;
  bool needs_counter_;
  PreparedLaunch plan_;
  std::int64_t max_ctas_ = kAnyCtas;
};

}  // namespace tegula::runtime
