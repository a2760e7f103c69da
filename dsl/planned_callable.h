#pragma once
// A library callable, from the perspective of its plans.
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "dsl/call_plan.h"
#include "dsl/plan_key.h"
#include "dsl/signature.h"

namespace tegula::dsl {

class PlannedCallable;

/// A call that has no plan yet, for the layer above, which may build and run other plans before the
/// call continues.
class FirstCall {
 public:
  using BuildFn = void (*)(const void* object, PlanBuilder& plan);
  FirstCall(PlannedCallable& callable, const Stream& stream, std::span<const HostArg> args,
            const void* object, BuildFn build)
      : callable_(callable), stream_(stream), args_(args), object_(object), build_(build) {}

  const Stream& stream() const { return stream_; }
  std::span<const HostArg> args() const { return args_; }
  /// Returns a plan that no table keeps. Threads may build concurrently. Throws what the callable
  /// throws.
  std::shared_ptr<const CallPlan> build() const;
  /// Returns the values captured by the callable's kernels, in the order of slots.
  std::vector<HostArg> captured() const;

 private:
  PlannedCallable& callable_;
  const Stream& stream_;
  std::span<const HostArg> args_;
  const void* object_;
  BuildFn build_;
};

/// Optional observer, called before the first plan of each key is built.
using FirstCallHook = void (*)(const FirstCall& call);
void set_first_call_hook(FirstCallHook hook);

class PlannedCallable {
 public:
  using BuildFn = FirstCall::BuildFn;

  explicit PlannedCallable(StrideKey strides);
  ~PlannedCallable();
  PlannedCallable(const PlannedCallable&) = delete;
  PlannedCallable& operator=(const PlannedCallable&) = delete;

  void call(const Stream& stream, std::span<const HostArg> args,
            std::span<const std::uint64_t> options, const void* object, BuildFn build);

  /// Returns the slot of a Tensor or Scalar that a kernel of the callable captured.
  int slot_of(const Capture& capture);

 private:
  friend class FirstCall;
  using Captures = std::vector<Capture>;
  struct Values;

  const Captures& captures() const { return *captures_.load(std::memory_order_acquire); }
  PlanKey key_of(const Stream& stream, std::span<const HostArg> args,
                 std::span<const HostArg> captured, std::span<const std::uint64_t> options) const;
  void first_call(const Stream& stream, std::span<const HostArg> args,
                  std::span<const std::uint64_t> options, const void* object, BuildFn build);

  const std::uint64_t id_;  ///< unique in the process, never reused
  const StrideKey strides_;
  std::mutex adding_;
  std::vector<std::unique_ptr<const Captures>> versions_;  ///< readers may still use an old one
  std::atomic<const Captures*> captures_;
};

}  // namespace tegula::dsl
