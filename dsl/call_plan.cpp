// A repeated call: patches addresses and extents into the argument blocks of its plan's launches.
#include "dsl/call_plan.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "dsl/at_kernel.h"
#include "dsl/errors.h"
#include "runtime/storage.h"
#include "tegula/scratch.h"

namespace tegula::dsl {
namespace {

using runtime::LaunchArg;

std::uint64_t bits_of_address(const Tensor& t) {
  return reinterpret_cast<std::uintptr_t>(t.data());
}

/// Uninitialised storage for up to N objects: a call pays only for those that it constructs.
template <class T, int N>
class Room {
 public:
  Room() = default;
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  template <class... Args>
  T& make(std::size_t i, Args&&... args) {
    return *std::construct_at(data() + i, std::forward<Args>(args)...);
  }
  T* data() { return reinterpret_cast<T*>(bytes_); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_); }

 private:
  alignas(T) std::byte bytes_[sizeof(T) * N];
};

/// The values of all slots in one call, and the memory that the call reserves.
class CallSlots {
 public:
  CallSlots(const CallSlots&) = delete;
  CallSlots& operator=(const CallSlots&) = delete;
  ~CallSlots() { std::destroy_n(made_.data(), made_count_); }
  CallSlots(std::span<const HostArg> args, std::span<const HostArg> captured) {
    set(0, args), set(slots::kCaptured, captured);
  }
  /// Makes the tensors of the plan.
  void make(const CallPlan& plan, const Stream& stream) {
    if (plan.uses_stream_memory() && !stream.device().on_host())
      stream_memory_ = Scratch::lock(stream);
    std::optional<Scratch> scratch;
    for (const MadeTensor& m : plan.made) {
      if (m.from == MadeTensor::From::scratch && !scratch)
        scratch.emplace(stream, stream.device(), plan.scratch_bytes);
      const Tensor& t = made_.make(made_count_, tensor(m, stream, scratch));
      values_.make(slots::kMade + made_count_++, &t, bits_of_address(t));
    }
  }
  LaunchArg operator[](const StepArg& a) const {
    return a.slot < 0 ? LaunchArg{nullptr, a.bits} : values_.data()[a.slot];
  }
  const Tensor* tensor(int slot) const { return values_.data()[slot].tensor; }

 private:
  void set(std::size_t first, std::span<const HostArg> args) {
    for (std::size_t i = 0; i < args.size(); ++i) {
      LaunchArg& value = values_.make(first + i, args[i].tensor, args[i].bits);
      if (args[i].kind != detail::ParamKind::View || !value.tensor) continue;
      if (!value.tensor->defined())
        value.tensor = nullptr;  // an omitted argument
      else
        value.bits = bits_of_address(*value.tensor);
    }
  }
  Tensor tensor(const MadeTensor& m, const Stream& stream, std::optional<Scratch>& scratch) const {
    switch (m.from) {
      case MadeTensor::From::scratch:
        return scratch->take(m.shape, m.dtype);
      case MadeTensor::From::counters:
        return Scratch::counters(stream, static_cast<std::size_t>(m.shape[0]));
      case MadeTensor::From::fallback_flags:
        return Scratch::fallback_flags(stream);
      case MadeTensor::From::view:
        break;
    }
    return m.view_of(*tensor(m.of));
  }

  Room<LaunchArg, slots::kEnd> values_;
  Room<Tensor, slots::kMaxOfEach> made_;
  std::size_t made_count_ = 0;
  std::unique_lock<std::mutex> stream_memory_;
};

void check_apart(const CallPlan& plan, const CallSlots& values) {
  for (const ApartArguments& a : plan.apart) {
    const Tensor *x = values.tensor(a.slot[0]), *y = values.tensor(a.slot[1]);
    if (x && y && share_memory(*x, *y)) [[unlikely]]
      fail(ErrorId::overlap, place_of_call(a.made_at), {}, a.position[0], a.position[1], a.kernel,
           a.written);
  }
}

/// On a GPU, the next call of the stream uses the same counters and requires zeros.
void check_counters(const CallPlan& plan, const CallSlots& values) {
  for (std::size_t i = 0; i < plan.made.size(); ++i) {
    if (plan.made[i].from != MadeTensor::From::counters) continue;
    const Tensor& counters = *values.tensor(static_cast<int>(slots::kMade + i));
    const auto* first = static_cast<const std::uint32_t*>(counters.data());
    for (std::int64_t n = 0; n < counters.numel(); ++n)
      if (first[n] != 0)
        throw InternalError(fmt::format("a call leaves its counter {} at {}", n, first[n]));
  }
}

void launch_step(const PlanStep& step, const CallSlots& values, const Stream& stream) {
  Room<LaunchArg, CallArgs::kMax> args;
  for (std::size_t i = 0; i < step.args.size(); ++i) args.make(i, values[step.args[i]]);
  const std::span<const LaunchArg> all(args.data(), step.args.size());
  at_kernel(step.made_at, [&] {
    if (step.loaded) [[likely]]
      step.loaded->launch(stream, all);
    else
      step.kernel->launch(stream, all);
  });
}

void launch_step(const LookedAtStep& step, const CallSlots& values, const Stream& stream) {
  static const Tensor kUndefined;
  std::vector<HostArg> args;
  for (const PlanBuilder::Given& g : step.args) {
    const LaunchArg value = values[{g.slot.index, g.bits}];
    HostArg a{g.info.kind, g.info.dtype, value.tensor, value.bits};
    if (g.info.optional)
      a.bits = a.tensor != nullptr;
    else if (g.info.kind == detail::ParamKind::View && !a.tensor)
      a.tensor = &kUndefined;  // the launch rejects it
    args.push_back(a);
  }
  detail::launch(*step.kernel, &stream, args);
}

}  // namespace

Tensor MadeTensor::view_of(const Tensor& t) const {
  const runtime::UnlistedScope of_argument;
  if (view) return view(Tensor::borrow(t.data(), t.shape(), t.dtype(), t.device(), t.strides()));
  return Tensor::borrow(static_cast<std::byte*>(t.data()) + offset, shape, dtype, t.device(),
                        strides);
}

void CallPlan::run(const Stream& stream, std::span<const HostArg> args,
                   std::span<const HostArg> captured) const {
  CallSlots values(args, captured);
  const StreamScope one_call;
  if (!made.empty()) values.make(*this, stream);
  check_apart(*this, values);  // includes the views that a recorded plan makes
  for (const PlanStep& step : steps) launch_step(step, values, stream);
  for (const LookedAtStep& step : looked_at) launch_step(step, values, stream);
  if (stream.device().on_host()) check_counters(*this, values);
}

}  // namespace tegula::dsl
