#pragma once
// A plan contains the decisions for all calls of one key: launches, and the source of each of their
// arguments. Immutable; a call only reads it.
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

/// Slots are numbered in three ranges: arguments of the call, arguments captured by kernels, and
/// tensors made by the plan.
namespace slots {
inline constexpr int kMaxOfEach = 64;
inline constexpr int kCaptured = kMaxOfEach, kMade = 2 * kMaxOfEach, kEnd = 3 * kMaxOfEach;
}  // namespace slots

/// A tensor that a plan makes in every call.
struct MadeTensor {
  enum class From : std::uint8_t { view, scratch, counters, fallback_flags };
  From from = From::view;
  int of = -1;  ///< for a view: slot of its tensor, lower than the slot of the view
  std::function<Tensor(const Tensor&)> view;
  Dims shape;
  DType dtype = DType::f32;
  /// Offset and strides of a view at a fixed offset, which has no function `view`.
  std::int64_t offset = 0;  ///< bytes
  Dims strides = {};

  /// Returns the view of the tensor `t`. It does not touch reference counts, which threads share.
  Tensor view_of(const Tensor& t) const;
};

/// An argument of a launch: a slot, or the bytes of a number if `slot` is -1.
struct StepArg {
  int slot = -1;
  std::uint64_t bits = 0;
};

/// One launch.
struct PlanStep {
  std::shared_ptr<const runtime::CompiledKernel> kernel;
  const runtime::LoadedArtefact* loaded = nullptr;  ///< on the plan's GPU; null on the host
  std::vector<StepArg> args;                        ///< run-time arguments, captured ones last
  Loc made_at;                                      ///< the line that made the kernel
};

/// Two arguments that must not overlap, because a kernel writes one of them.
struct ApartArguments {
  int slot[2];
  std::size_t position[2], written;  ///< in the kernel's list of arguments, for the message
  std::string kernel;
  Loc made_at;
};

/// A launch in a mode that executes or traces the kernel in every call (eager, retraced).
struct LookedAtStep {
  std::shared_ptr<KernelInstance> kernel;
  std::vector<PlanBuilder::Given> args;
};

struct CallPlan {
  std::vector<std::uint64_t> key;
  std::uint64_t hash = 0;
  std::vector<MadeTensor> made;
  std::size_t scratch_bytes = 0;
  bool shares_flags = false;  ///< a launch sets fallback flags for the next one
  std::vector<PlanStep> steps;
  std::vector<ApartArguments> apart;
  /// Access of the launches to each argument's memory, for the call's own arguments only: an
  /// argument that is written and read is InOut.
  std::vector<detail::ViewAccess> access;
  bool writes_captures = false;         ///< a launch writes a tensor that a kernel captured
  std::vector<LookedAtStep> looked_at;  ///< replaces `steps` in such a mode

  /// Returns true if launches use memory of the stream. A call on a GPU then holds Scratch::lock()
  /// until its launches are queued: those of another thread's call would overwrite what a launch
  /// leaves for the next one.
  bool uses_stream_memory() const { return shares_flags || scratch_bytes > 0; }
  /// Queues the launches. `captured` contains the current values of the captures. Throws
  /// CompileError if arguments overlap, and what launches throw.
  void run(const Stream& stream, std::span<const HostArg> args,
           std::span<const HostArg> captured) const;
};

}  // namespace tegula::dsl
