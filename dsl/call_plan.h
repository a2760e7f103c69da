#pragma once
// A plan holds the decisions for all calls of one key: launches, and where each of their arguments
// comes from. Immutable; a call only reads it.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dsl/instance.h"
#include "runtime/compiled_kernel.h"
#include "tegula/call_plan.h"

namespace tegula::dsl {

/// Slots are numbered in three ranges: arguments of the call, arguments that kernels captured, and
/// tensors that the plan makes.
namespace slots {
inline constexpr int kMaxOfEach = 64;
inline constexpr int kCaptured = kMaxOfEach, kMade = 2 * kMaxOfEach, kEnd = 3 * kMaxOfEach;
}  // namespace slots

/// A tensor that a plan makes at every call.
struct MadeTensor {
  enum class From : std::uint8_t { view, scratch, counters, fallback_flags };
  From from = From::view;
  int of = -1;  ///< slot of a view's tensor, numbered below its own
  std::function<Tensor(const Tensor&)> view;
  Dims shape;
  DType dtype = DType::f32;
  /// A view that is the same at every call has these in place of a function of the tensor.
  std::int64_t offset = 0;  ///< bytes
  Dims strides = {};

  /// The view of the tensor `t`. It counts no references, which threads share.
  Tensor view_of(const Tensor& t) const;
};

/// An argument of a launch: a slot, or the bytes of a number where there is none.
struct StepArg {
  int slot = -1;
  std::uint64_t bits = 0;
};

/// One launch.
struct PlanStep {
  std::shared_ptr<const runtime::CompiledKernel> kernel;
  const runtime::LoadedArtefact* loaded = nullptr;  ///< on the plan's GPU; null on the host
  std::vector<StepArg> args;                        ///< those at run time, captured ones last
  Loc made_at;                                      ///< the line that made the kernel
};

/// Two arguments of which a kernel writes one, so that they must not overlap.
struct ApartArguments {
  int slot[2];
  std::size_t position[2], written;  ///< in the kernel's list of arguments, for the message
  std::string kernel;
  Loc made_at;
};

/// A launch in a mode that looks at every kernel anew: eager, or traced again.
struct LookedAtStep {
  std::shared_ptr<KernelInstance> kernel;
  std::vector<PlanBuilder::Given> args;
};

struct CallPlan {
  std::vector<std::uint64_t> key;
  std::uint64_t hash = 0;
  std::vector<MadeTensor> made;
  std::size_t scratch_bytes = 0;
  bool shares_flags = false;  ///< its launches follow each other on the stream
  std::vector<PlanStep> steps;
  std::vector<ApartArguments> apart;
  /// Use of each argument's memory by the launches, of the call's own arguments alone: one that is
  /// written and read is InOut.
  std::vector<detail::ViewAccess> access;
  bool writes_captures = false;         ///< a launch writes a tensor that a kernel captured
  std::vector<LookedAtStep> looked_at;  ///< instead of `steps`, in such a mode

  /// Queues the launches. `captured` is what captures hold now. Throws
  /// CompileError where arguments overlap, and what launches throw.
  void run(const Stream& stream, std::span<const HostArg> args,
           std::span<const HostArg> captured) const;
};

}  // namespace tegula::dsl
