// A call of a library callable: its key, the plan of that key, the plan's launches.
#include "dsl/planned_callable.h"

#include <fmt/format.h>

#include <cstddef>
#include <memory>

#include "dsl/ahead/call_recording.h"
#include "dsl/plan_recorder.h"
#include "dsl/plan_table.h"
#include "dsl/preparing.h"
#include "support/env.h"
#include "support/errors.h"
#include "support/generation.h"
#include "tegula/called_from.h"

namespace tegula::dsl {
namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

/// Returns true in a mode that examines every launch, or inside a kernel's trace, where calls are
/// rejected.
bool looks_at_launches() { return Tracer::current() || env().eager || wants_retrace(); }

std::atomic<FirstCallHook>& hook_cell() {
  static std::atomic<FirstCallHook> cell = nullptr;
  return cell;
}

bool is_same(const Capture& a, const Capture& b) {
  if (a.cell != b.cell || a.tensor != b.tensor) return false;
  if (a.cell || a.tensor) return true;
  return a.copy.data() == b.copy.data() && a.copy.dtype() == b.copy.dtype() &&
         a.copy.shape() == b.copy.shape() && a.copy.strides() == b.copy.strides();
}

}  // namespace

/// Current values of the captures.
struct PlannedCallable::Values {
  explicit Values(const Captures& captures) : count(captures.size()) {
    for (std::size_t i = 0; i < count; ++i) std::construct_at(data() + i, captures[i].read());
  }
  std::span<const HostArg> all() const { return {reinterpret_cast<const HostArg*>(bytes), count}; }
  HostArg* data() { return reinterpret_cast<HostArg*>(bytes); }

  alignas(HostArg) std::byte bytes[slots::kMaxOfEach * sizeof(HostArg)];
  std::size_t count;
};

PlannedCallable::PlannedCallable(StrideKey strides) : id_(next_id()), strides_(strides) {
  versions_.push_back(std::make_unique<const Captures>());
  captures_ = versions_.back().get();
}
PlannedCallable::~PlannedCallable() { forget_plans(id_); }

int PlannedCallable::slot_of(const Capture& capture) {
  const std::lock_guard lock(adding_);
  const Captures& known = captures();
  for (std::size_t i = 0; i < known.size(); ++i)
    if (is_same(known[i], capture)) return slots::kCaptured + static_cast<int>(i);
  if (known.size() == slots::kMaxOfEach)
    fail(ErrorId::too_many_arguments, detail::called_from(), {}, "a call of several kernels",
         known.size() + 1, +slots::kMaxOfEach);
  auto more = std::make_unique<Captures>(known);
  more->push_back(capture);
  versions_.push_back(std::move(more));
  captures_.store(versions_.back().get(), std::memory_order_release);
  return slots::kCaptured + static_cast<int>(known.size());
}

PlanKey PlannedCallable::key_of(const Stream& stream, std::span<const HostArg> args,
                                std::span<const HostArg> captured,
                                std::span<const std::uint64_t> options) const {
  PlanKey key(strides_);
  key.add(id_);
  key.add(generation());
  key.add(static_cast<std::uint64_t>(stream.device().kind) << 32 |
          static_cast<std::uint64_t>(stream.device().index));
  key.add(args.size() << 32 | captured.size() << 16 | options.size());
  for (const std::uint64_t word : options) key.add(word);
  for (const HostArg& a : args) key.add(a);
  for (const HostArg& a : captured) key.add(a);
  return key;
}

void PlannedCallable::call(const Stream& stream, std::span<const HostArg> args,
                           std::span<const std::uint64_t> options, const void* object,
                           BuildFn build) {
  if (args.size() > slots::kMaxOfEach)
    fail(ErrorId::too_many_arguments, detail::called_from(), {}, "a call of several kernels",
         args.size(), +slots::kMaxOfEach);
  if (options.size() > PlanKey::kMaxOptions)
    throw InternalError(
        fmt::format("a call has {} options, at most {}", options.size(), +PlanKey::kMaxOptions));
  if (!looks_at_launches()) [[likely]] {
    const Values captured(captures());
    const PlanKey key = key_of(stream, args, captured.all(), options);
    const CallPlan* plan = plan_of_thread(key);
    if (!plan) plan = plan_of_process(key);
    // A call that is prepared or recorded has no memory to launch with. The plan may come from
    // another thread that makes the same call.
    if (plan && !is_preparing()) [[likely]]
      return plan->run(stream, args, captured.all());
  }
  first_call(stream, args, options, object, build);
}

std::shared_ptr<const CallPlan> FirstCall::build() const {
  PlanRecorder recorder(callable_, stream_.device(), args_, {});
  PlanBuilder builder(recorder);
  build_(object_, builder);
  return std::make_shared<CallPlan>(recorder.take());
}

std::vector<HostArg> FirstCall::captured() const {
  const PlannedCallable::Values captured(callable_.captures());
  return {captured.all().begin(), captured.all().end()};
}

void set_first_call_hook(FirstCallHook hook) { hook_cell() = hook; }

void PlannedCallable::first_call(const Stream& stream, std::span<const HostArg> args,
                                 std::span<const std::uint64_t> options, const void* object,
                                 BuildFn build) {
  CallRecording* const recording = CallRecording::current();
  const bool looks = !recording && looks_at_launches();
  const std::uint64_t before = generation();
  const bool prepares = is_preparing();
  if (const FirstCallHook hook = hook_cell().load(std::memory_order_relaxed);
      hook && !looks && !prepares)
    hook(FirstCall(*this, stream, args, object, build));
  PlanRecorder recorder(*this, stream.device(), args,
                        {looks, recording ? recording->target() : std::string_view(), true});
  PlanBuilder builder(recorder);
  build(object, builder);
  const auto plan = std::make_shared<CallPlan>(recorder.take());
  if (recording) return recording->add(*plan, args);
  if (prepares) return;
  if (looks) return plan->run(stream, args, {});
  // Use the key with all that is known now: kernels may have captured more.
  const Values captured(captures());
  const PlanKey key = key_of(stream, args, captured.all(), options);
  plan->key.assign(key.words().begin(), key.words().end());
  plan->hash = key.hash();
  if (generation() == before) keep_plan(plan);
  plan->run(stream, args, captured.all());
}

}  // namespace tegula::dsl

namespace tegula {

void PlanOptions::too_many(std::size_t count) {
  throw InternalError(fmt::format("a plan has {} options, at most {}", count, +kMax));
}

CallPlans::CallPlans(StrideKey strides)
    : callable_(std::make_unique<dsl::PlannedCallable>(strides)) {}
CallPlans::~CallPlans() = default;

void CallPlans::run(const Stream& stream, std::span<const detail::HostArg> args,
                    std::span<const std::uint64_t> options, const void* object,
                    BuildFn build) const {
  callable_->call(stream, args, options, object, build);
}

}  // namespace tegula
