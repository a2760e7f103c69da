#pragma once
// A library callable as its plans know it.
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

class PlannedCallable {
 public:
  using BuildFn = void (*)(const void* object, PlanBuilder& plan);

  explicit PlannedCallable(StrideKey strides);
  ~PlannedCallable();
  PlannedCallable(const PlannedCallable&) = delete;
  PlannedCallable& operator=(const PlannedCallable&) = delete;

  void call(const Stream& stream, std::span<const HostArg> args,
            std::span<const std::uint64_t> options, const void* object, BuildFn build);

  /// The slot of a Tensor or Scalar that a kernel of the callable captured.
  int slot_of(const Capture& capture);

 private:
  using Captures = std::vector<Capture>;
  struct Values;

  const Captures& captures() const { return *captures_.load(std::memory_order_acquire); }
  PlanKey key_of(const Stream& stream, std::span<const HostArg> args,
                 std::span<const HostArg> captured, std::span<const std::uint64_t> options) const;
  void first_call(const Stream& stream, std::span<const HostArg> args,
                  std::span<const std::uint64_t> options, const void* object, BuildFn build);

  const std::uint64_t id_;  ///< no other callable of the process has or had it
  const StrideKey strides_;
  std::mutex adding_;
  std::vector<std::unique_ptr<const Captures>> versions_;  ///< readers may still hold an old one
  std::atomic<const Captures*> captures_;
};

}  // namespace tegula::dsl
