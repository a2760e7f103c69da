#pragma once
// The configurations that a call can be made in, as a measure runs them: those of a user's kernel,
// those of the plan of a library's callable.
#include <span>
#include <string>
#include <vector>

#include "autotune/race/measure.h"
#include "dsl/instance.h"
#include "runtime/compiled_kernel.h"
#include "tegula/stream.h"

namespace tegula::autotune {

/// Candidates by number, 0 the reference.
class CallCandidates {
 public:
  virtual ~CallCandidates() = default;
  /// Compiles a candidate and keeps it until forget(); several threads ask. Throws what compiling
  /// throws.
  virtual Prepared compile(int candidate, const Stream& stream) = 0;
  /// Queues the call of a compiled candidate on arguments like those of the call.
  virtual void run(int candidate, const Stream& stream, std::span<const dsl::HostArg> args) = 0;
  virtual void forget(int candidate) = 0;
  /// The access of each argument.
  virtual std::span<const tegula::detail::ViewAccess> access() const = 0;
};

/// Adds what is known of a kernel's machine code to that of the call's other kernels.
void add_code(Prepared& out, const runtime::CompiledKernel& kernel, Device device);

/// Defects of code, as text: codes of warnings are those of runtime/warnings.def.
std::string defects_of(const std::vector<Warning>& warnings);

}  // namespace tegula::autotune
