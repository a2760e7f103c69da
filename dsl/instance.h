#pragma once
// A kernel lambda in the compiler: the key of a call, and the tile form for a key.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "dsl/launcher.h"
#include "dsl/signature.h"
#include "dsl/tracer.h"
#include "dsl/tuned_calls.h"
#include "ir/kernel.h"
#include "ir/plan_request.h"
#include "support/hash.h"
#include "tegula/kernel.h"

namespace tegula::dsl {

struct TraceResult {
  ir::Kernel kernel;    ///< tile form, one parameter per run-time argument
  Signature signature;  ///< the key it is valid for, including requests of the trace
  std::vector<Diagnostic> warnings;
  std::vector<Tunable> tunables;  ///< in the order of their first use
};

/// Two dimensions of run-time arguments that have the same name.
struct EqualExtents {
  std::uint32_t arg[2];
  int axis[2];
  std::string name;
  std::string text[2];  ///< text of the arguments
};

/// A lambda with its type erased.
struct Closure : detail::ClosureType {
  std::string name;
  Loc loc;
  std::shared_ptr<const void> object;
  std::vector<ParamName> names;  ///< empty, or one per parameter
  /// Serializes runs of the lambda, for all tunings: its captures need not be thread-safe. A lambda
  /// that traces itself gets an error, not a deadlock.
  std::shared_ptr<std::recursive_mutex> tracing = std::make_shared<std::recursive_mutex>();
};

/// Options for compiling and calling a lambda; each kernel derived from another changes one of
/// these.
struct KernelOptions {
  Tuning tuning;
  /// Allows launches even if arguments that the kernel writes overlap others.
  bool may_alias = false;
  /// Fields that its plan must have, and fields that it has where it supports them.
  ir::PlanRequest planned;
  PlanPatch preferred;
  /// The line that set the tuning.
  Loc tuned_at;
};

struct EagerProgram;

class KernelInstance {
 public:
  KernelInstance(Closure closure, KernelOptions options);

  const std::string& name() const { return closure_->name; }
  const Loc& loc() const { return closure_->loc; }
  /// Returns the callee for messages about the arguments of a call.
  Callee callee() const { return {name(), loc(), closure_->names, params().size()}; }
  const Tuning& tuning() const { return options_.tuning; }
  const KernelOptions& options() const { return options_; }

  /// Equal for kernels whose lambdas are known to be the same: type, captures and tuning. A lambda
  /// whose captures may contain an address is only equal to itself; its compiled kernels are still
  /// shared, by the hash of their IR.
  const Hash128& identity() const { return identity_; }

  /// Returns the key of a call; with identity() it determines which compiled kernel is launched.
  Signature signature(std::span<const HostArg> args) const;
  /// Returns the run-time arguments in the order of the kernel's parameters: without constants,
  /// followed by the current values of captured Scalars and Tensors.
  std::vector<HostArg> run_time_args(std::span<const HostArg> args) const;

  /// Traces the lambda for a key. Thread-safe; one trace at a time.
  TraceResult trace(const Signature& key);

  /// Runs the lambda for one program and executes the recorded ops; `key` is that of a trace.
  void run_eagerly(const Signature& key, const EagerProgram& runs);

  /// Returns the same lambda with another tuning.
  std::shared_ptr<KernelInstance> with(const Tuning& tuning, Loc at = {}) const;
  /// Returns the same lambda, launched even if arguments that it writes overlap others.
  std::shared_ptr<KernelInstance> allowing_alias() const;
  /// Returns the same lambda with additional requirements on its plan.
  std::shared_ptr<KernelInstance> planned(const ir::PlanRequest& request) const;
  /// Returns the same lambda with fields that its plan has where it supports them.
  std::shared_ptr<KernelInstance> preferring(const PlanPatch& fields) const;
  /// Returns the same lambda with names like "A[M, K]" for its parameters.
  std::shared_ptr<KernelInstance> named(std::span<const char* const> names, Loc at) const;

  std::span<const ParamInfo> params() const { return closure_->params; }
  /// Returns the number of parameters that are not C++ constants.
  std::size_t run_time_params() const { return run_time_params_; }
  /// Read without a lock; facts that are found later appear in a later version.
  const Specialization& known() const { return *specialization_.load(std::memory_order_acquire); }
  /// Throws CompileError T0714 if calls cannot pass this number of run-time arguments, including
  /// captured ones.
  void check_argument_count(std::size_t count) const;
  bool may_alias() const { return options_.may_alias; }
  const std::vector<EqualExtents>& equal_extents() const { return equal_extents_; }

  Launcher launcher;
  TunedCalls tuned;

 private:
  KernelInstance(std::shared_ptr<const Closure> closure, KernelOptions options);
  static std::shared_ptr<KernelInstance> make(std::shared_ptr<const Closure> closure,
                                              KernelOptions options);
  TraceResult run(Signature key, bool check_loops);
  void call(Tracer& t) const;
  void check_tuning(const Tracer& t) const;
  void remember(const Tracer& t);
  std::vector<HostArg> constants(const Signature& key) const;
  Signature completed(Signature key) const;

  std::shared_ptr<const Closure> closure_;
  KernelOptions options_;
  Hash128 identity_;
  std::size_t run_time_params_ = 0;
  bool checked_ = false;
  bool meets_ = false;            ///< has a grid_barrier; guarded like the closure
  std::vector<ParamName> names_;  ///< names of the run-time parameters; empty, or one for each
  std::vector<EqualExtents> equal_extents_;
  std::atomic<const Specialization*> specialization_;
  std::vector<std::unique_ptr<const Specialization>>
      versions_;  ///< versions of specialization_; readers may still use an old one
};

}  // namespace tegula::dsl
