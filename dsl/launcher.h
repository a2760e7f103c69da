#pragma once
// The compiled kernels of one kernel object: found by the key of a call without lock or allocation,
// compiled if there is none.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dsl/call_key.h"
#include "runtime/jit.h"
#include "support/hash.h"
#include "tegula/stream.h"
#include "tegula/warning.h"

namespace tegula::dsl {

/// Returns true if TEGULA_CHECK makes every launch trace its kernel again.
bool wants_retrace();

struct CompiledEntry {
  CallKey key;
  std::shared_ptr<const runtime::CompiledKernel> kernel;
  Hash128 ir;  ///< hash of the tile form it was compiled from
  std::unique_ptr<const CompiledEntry> next;
};

class Launcher {
 public:
  Launcher() = default;

  /// Overrides for all later compilations.
  std::optional<runtime::Backend> backend;
  std::optional<ir::Plan> plan;

  /// Runs one call, from start to end.
  void launch(KernelInstance& instance, const Stream* stream, std::span<const HostArg> args);
  /// Compiles for these arguments, or finds the compiled kernel, without launching.
  std::shared_ptr<const runtime::CompiledKernel> prepare(KernelInstance& instance,
                                                         const Stream* stream,
                                                         std::span<const HostArg> args);
  /// Returns the warnings that a compilation for these arguments would give before assembling,
  /// which takes the most time. Throws what compiling throws.
  std::vector<Warning> try_passes(KernelInstance& instance, Device device,
                                  std::span<const HostArg> args) const;
  /// Does the same as prepare() for a plan of calls, with the arguments in the kernel's order:
  /// captured ones last.
  std::shared_ptr<const runtime::CompiledKernel> compiled_for(KernelInstance& instance,
                                                              std::span<const HostArg> args,
                                                              Device device, CallArgs& run_time);
  /// Compiles for the target of this name, such as "sm_90a", or finds the compiled kernel. Uses
  /// only the shapes, types and alignment of the arguments. Needs no GPU. `at` is the line of the
  /// request.
  Artefact compile_for(KernelInstance& instance, std::string_view name,
                       std::span<const HostArg> args, const Loc& at) const;
  /// Does the same as compile_for, and returns the kernel in the process's table; adds its warnings
  /// to `warnings`.
  std::shared_ptr<const runtime::CompiledKernel> compiled_for_target(
      KernelInstance& instance, std::string_view name, std::span<const HostArg> args, const Loc& at,
      std::vector<Warning>& warnings) const;
  /// Returns the kernel compiled last; null before the first compilation.
  std::shared_ptr<const runtime::CompiledKernel> latest() const;
  /// Returns the warnings about everything compiled so far, each once.
  std::vector<Warning> warnings() const;
  /// Returns one line per compilation: the part of its key that was new.
  std::string compile_history() const;
  std::size_t compiled() const;

 private:
  const CompiledEntry* find(const CallKey& key) const;
  /// Returns null if the first trace found values to choose: the call then starts over.
  const CompiledEntry* compile(KernelInstance& instance, std::span<const HostArg> args,
                               Device device);
  /// Requires the lock; adds warnings that the process has not reported yet to `unsaid`.
  const CompiledEntry* find_or_add(KernelInstance& instance, std::span<const HostArg> args,
                                   Device device, std::vector<Warning>& unsaid);
  /// Consumes the traced kernel. An empty target is the device's own.
  std::shared_ptr<const runtime::CompiledKernel> find_or_compile(KernelInstance& instance,
                                                                 TraceResult& traced,
                                                                 const Hash128& ir, Device device,
                                                                 std::optional<ir::Target> target,
                                                                 bool& is_new) const;
  runtime::CompileRequest request_for(const KernelInstance& instance, TraceResult& traced,
                                      Device device, std::optional<ir::Target> target) const;
  const CompiledEntry* add(CompiledEntry entry);
  std::string reason(const std::string& signature) const;

  mutable std::mutex compiling_;  ///< one compilation of a kernel object at a time
  std::unique_ptr<const CompiledEntry> entries_;
  std::atomic<const CompiledEntry*> newest_ = nullptr;
  std::vector<std::string> history_;
  std::vector<Warning> warnings_;
  std::string last_signature_;
};

}  // namespace tegula::dsl
