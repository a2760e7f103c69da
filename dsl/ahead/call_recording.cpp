#include "dsl/ahead/call_recording.h"

#include <algorithm>
#include <utility>

#include "dsl/planned_callable.h"
#include "support/errors.h"
#include "tegula/scratch.h"

namespace tegula::dsl {
namespace {

using From = MadeTensor::From;

thread_local CallRecording* recording_of_thread = nullptr;

/// Returns a placeholder for memory whose address differs between calls.
void* some_address() { return reinterpret_cast<void*>(std::uintptr_t{1} << 20); }

bool contains(const ByteRange& all, const ByteRange& part) {
  return all.begin <= part.begin && part.end <= all.end && part.begin < all.end;
}

/// Returns `part` as a view of the tensor `of` in slot `slot`, at the same offset in every call.
MadeTensor fixed_view(int slot, const Tensor& of, const Tensor& part) {
  MadeTensor made;
  made.of = slot;
  made.shape = part.shape(), made.strides = part.strides(), made.dtype = part.dtype();
  made.offset = static_cast<const char*>(part.data()) - static_cast<const char*>(of.data());
  return made;
}

}  // namespace

CallPlan plan_of_launch(KernelInstance& kernel, PlanRecorder::Mode mode,
                        std::span<const HostArg> args) {
  PlannedCallable nobody(StrideKey::exact);
  PlanRecorder recorder(nobody, Device::cuda(), args, mode);
  std::vector<PlanBuilder::Given> given;
  for (std::size_t i = 0; i < args.size(); ++i)
    given.push_back({kernel.params()[i], {static_cast<int>(i)}, args[i].bits});
  // A non-owning pointer suffices: the recorder keeps no reference to the kernel.
  recorder.launch(std::shared_ptr<KernelInstance>(std::shared_ptr<void>(), &kernel), given);
  return recorder.take();
}

/// For each slot of a plan that is appended: its slot in the recorded plan, and its tensor in this
/// call.
struct CallRecording::Slots {
  std::vector<StepArg> recorded = std::vector<StepArg>(slots::kEnd);
  std::vector<const Tensor*> now = std::vector<const Tensor*>(slots::kEnd);
};

CallRecording::CallRecording(std::string_view callable, std::string_view target,
                             std::span<const HostArg> args)
    : callable_(callable),
      target_(target),
      args_(args),
      outer_(std::exchange(recording_of_thread, this)) {}
CallRecording::~CallRecording() { recording_of_thread = outer_; }
CallRecording* CallRecording::current() { return recording_of_thread; }

void CallRecording::refuse(std::string_view what) const {
  fail(ErrorId::kernel_argument, {}, {}, callable_, "what it launches with", what,
       "only tensors of the call, parts of them and numbers: a table contains no memory");
}

int CallRecording::make(MadeTensor made, Tensor now) {
  if (now_.size() == slots::kMaxOfEach) refuse("more than 64 views and temporary tensors");
  now_.push_back(std::move(now));
  plan_.made.push_back(std::move(made));
  return slots::kMade + static_cast<int>(now_.size()) - 1;
}

int CallRecording::slot_of(const Tensor& tensor) {
  for (std::size_t i = 0; i < args_.size(); ++i) {
    const Tensor* const t = args_[i].tensor;
    if (t == nullptr || !t->defined()) continue;
    const bool is_itself = t->data() == tensor.data() && t->dtype() == tensor.dtype() &&
                           t->shape() == tensor.shape() && t->strides() == tensor.strides();
    const int slot = static_cast<int>(i);
    if (is_itself) return slot;
    if (contains(t->byte_range(), tensor.byte_range()))
      return make(fixed_view(slot, *t, tensor), tensor);
  }
  refuse("a temporary tensor, " + tensor.shape().str());
}

StepArg CallRecording::argument(const HostArg& arg) {
  const bool is_tensor = arg.tensor != nullptr && arg.tensor->defined();
  if (is_tensor) return {slot_of(*arg.tensor), 0};
  if (arg.kind == ParamKind::Pointer && arg.bits != 0) refuse("an address");
  return {-1, arg.kind == ParamKind::View ? 0 : arg.bits};
}

int CallRecording::add_made(const MadeTensor& m, Slots& slots) {
  if (m.from != From::view) {
    if (m.from == From::scratch) plan_.scratch_bytes += Scratch::bytes_of(m.shape, m.dtype);
    return make(m, Tensor::borrow(some_address(), m.shape, m.dtype, Device::cuda()));
  }
  const Tensor& of = *slots.now[static_cast<std::size_t>(m.of)];
  const Tensor now = m.view_of(of);
  return make(fixed_view(slots.recorded[static_cast<std::size_t>(m.of)].slot, of, now), now);
}

void CallRecording::add(const CallPlan& plan, std::span<const HostArg> args) {
  Slots slots;
  for (std::size_t i = 0; i < args.size(); ++i) {
    slots.recorded[i] = argument(args[i]);
    slots.now[i] = args[i].tensor;
  }
  for (std::size_t i = 0; i < plan.made.size(); ++i) {
    const std::size_t slot = slots::kMade + i;
    slots.recorded[slot] = {add_made(plan.made[i], slots), 0};
    slots.now[slot] = &now_.back();
  }
  const auto recorded = [&](const StepArg& a) {
    if (a.slot >= slots::kCaptured && a.slot < slots::kMade) refuse("what a kernel captures");
    return a.slot < 0 ? a : slots.recorded[static_cast<std::size_t>(a.slot)];
  };
  for (const PlanStep& step : plan.steps) {
    PlanStep& own = plan_.steps.emplace_back(step);
    std::ranges::transform(step.args, own.args.begin(), recorded);
  }
  for (ApartArguments apart : plan.apart) {
    for (int& slot : apart.slot) slot = recorded({slot}).slot;
    if (apart.slot[0] >= 0 && apart.slot[1] >= 0) plan_.apart.push_back(std::move(apart));
  }
  plan_.shares_flags |= plan.shares_flags;
}

void CallRecording::add(KernelInstance& kernel, std::span<const HostArg> args) {
  add(plan_of_launch(kernel, {.target = target_, .takes_winners = true}, args), args);
}

}  // namespace tegula::dsl
