#pragma once
// TEGULA_EAGER=1: a program of a kernel runs while its lambda does, op by op, so that a debugger
// stepping through the user's source sees what every tile holds. Loops really loop, branches are
// taken or not. A normal trace comes first: it finds the mistakes that a run alone does not show.
// TEGULA_EAGER_PROGRAM says which program, or that the lambda runs once for each.
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

/// One program, its arguments and the memory that it may touch.
struct EagerProgram {
  std::span<const ir::EvalArg> args;
  /// Memory beside that of the arguments, for kernels that take addresses.
  std::span<const ir::HostMemory> reachable;
  std::array<std::int64_t, 3> grid{1, 1, 1};
  std::int64_t number = 0;  ///< the grid's first axis counts fastest
};

/// The interpreter beside a tracer: executes what was recorded in the kernel's body.
class EagerInterpreter {
 public:
  /// The tracer has all its parameters by now.
  EagerInterpreter(Tracer& tracer, const EagerProgram& runs);
  ~EagerInterpreter();

  /// Executes what was recorded since the last time.
  void catch_up();
  /// A scalar as a number. Throws CompileError where it has none.
  std::int64_t integer(ir::Value v, std::string_view used_as);
  /// Forgets large tiles that no variable holds; only between two iterations of the user's code,
  /// where no expression is half done.
  void release();
  /// Type and first elements, for people.
  std::string text(ir::Value v);
  /// Throws ProgramError with what the program did wrong, if anything.
  void finish();

 private:
  struct State;
  Tracer& tracer_;
  std::unique_ptr<State> state_;
};

/// One call under TEGULA_EAGER=1. Throws DeviceError for tensors on a GPU.
void launch_eagerly(KernelInstance& instance, std::span<const HostArg> args, Device device);

}  // namespace tegula::dsl
