#pragma once
// TEGULA_EAGER=1: a program of a kernel runs while its lambda does, op by op, so that a debugger
// that steps through the user's source shows the contents of every tile. Loops iterate, and
// branches are taken or not. A normal trace comes first: it finds mistakes that a run alone does
// not show. TEGULA_EAGER_PROGRAM selects the program, or lets the lambda run once for each.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dsl/launcher.h"
#include "ir/eval/eval.h"
#include "ir/kernel.h"

namespace tegula::dsl {

class Tracer;

/// One program, its arguments and the memory that it may access.
struct EagerProgram {
  std::span<const ir::EvalArg> args;
  /// Memory other than that of the arguments, for kernels that take addresses.
  std::span<const ir::HostMemory> reachable;
  std::array<std::int64_t, 3> grid{1, 1, 1};
  std::int64_t number = 0;  ///< linear index; the grid's first axis varies fastest
};

/// The interpreter attached to a tracer: executes the ops recorded in the kernel's body.
class EagerInterpreter {
 public:
  /// The tracer must have all its parameters.
  EagerInterpreter(Tracer& tracer, const EagerProgram& runs);
  ~EagerInterpreter();

  /// Executes the ops recorded since the last call.
  void catch_up();
  /// Returns a scalar as a number. Throws CompileError if it has none.
  std::int64_t integer(ir::Value v, std::string_view used_as);
  /// Releases large tiles that no variable refers to; only between two iterations of the user's
  /// code, where no expression is incomplete.
  void release();
  /// Returns the type and the first elements as readable text.
  std::string text(ir::Value v);
  /// Throws ProgramError with the errors of the program, if any.
  void finish();

 private:
  struct State;
  Tracer& tracer_;
  std::unique_ptr<State> state_;
};

/// Runs one call under TEGULA_EAGER=1. Throws DeviceError for tensors on a GPU.
void launch_eagerly(KernelInstance& instance, std::span<const HostArg> args, Device device);

}  // namespace tegula::dsl
