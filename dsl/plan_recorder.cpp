#include "dsl/plan_recorder.h"

#include <algorithm>
#include <utility>

#include "dsl/at_kernel.h"
#include "dsl/planned_callable.h"
#include "support/env.h"
#include "tegula/error.h"
#include "tegula/scratch.h"

namespace tegula::dsl {
namespace {

/// Returns a placeholder for memory with a different address in each call, aligned as kernels
/// require.
void* some_address() { return reinterpret_cast<void*>(std::uintptr_t{1} << 20); }

/// Returns the kernel that a call would run, with the values of a tune() winner if there is one.
/// Does not measure, because recorded tensors have no memory.
KernelInstance& chosen_kernel(KernelInstance& kernel, std::span<const HostArg> args,
                              Device device) {
  if (env().tune != "off" || !kernel.tuning().empty()) return kernel;
  kernel.tuned.note(kernel.trace(kernel.signature(args)), kernel.tuning());
  if (!kernel.tuned.has_choices()) return kernel;
  KernelInstance* const tuned = kernel.tuned.find(kernel, nullptr, args, device);
  return tuned != nullptr ? *tuned : kernel;
}

}  // namespace

PlanRecorder::PlanRecorder(PlannedCallable& callable, Device device, std::span<const HostArg> args,
                           Mode mode)
    : callable_(callable), device_(device), args_(args), mode_(mode), is_used_(args.size()) {
  plan_.access.assign(args.size(), detail::ViewAccess::In);
}

const Tensor& PlanRecorder::tensor(int slot) const {
  static const Tensor kNone;
  if (slot < 0) return kNone;
  if (slot >= slots::kMade) return now_[static_cast<std::size_t>(slot - slots::kMade)];
  const Tensor* t = args_[static_cast<std::size_t>(slot)].tensor;
  return t ? *t : kNone;
}

PlanSlot PlanRecorder::make(MadeTensor made) {
  if (now_.size() == slots::kMaxOfEach) throw InternalError("a plan makes more than 64 tensors");
  if (made.from == MadeTensor::From::view) {
    now_.push_back(made.view_of(tensor(made.of)));
  } else {
    now_.push_back(Tensor::borrow(some_address(), made.shape, made.dtype, device_));
  }
  if (made.from == MadeTensor::From::scratch)
    plan_.scratch_bytes += Scratch::bytes_of(made.shape, made.dtype);
  plan_.shares_flags |= made.from == MadeTensor::From::fallback_flags;
  plan_.made.push_back(std::move(made));
  return {slots::kMade + static_cast<int>(now_.size()) - 1};
}

/// Returns the value that the argument of a launch has in this call.
HostArg PlanRecorder::argument(const PlanBuilder::Given& given) const {
  HostArg a{given.info.kind, given.info.dtype, nullptr, given.bits};
  const int slot = given.slot.index;
  if (a.kind == detail::ParamKind::View) {
    const Tensor& t = tensor(slot);
    a.tensor = given.info.optional && !t.defined() ? nullptr : &t;
    a.bits = given.info.optional && t.defined();
  } else if (slot >= slots::kMade) {
    a.tensor = &tensor(slot);
    a.bits = reinterpret_cast<std::uintptr_t>(a.tensor->data());
  } else if (slot >= 0) {
    a.tensor = args_[static_cast<std::size_t>(slot)].tensor;
    a.bits = args_[static_cast<std::size_t>(slot)].bits;
  }
  return a;
}

/// Returns the slot that owns the memory of this slot's tensor.
int PlanRecorder::base_of(int slot) const {
  while (slot >= slots::kMade) {
    const MadeTensor& m = plan_.made[static_cast<std::size_t>(slot - slots::kMade)];
    if (m.from != MadeTensor::From::view) break;
    slot = m.of;
  }
  return slot;
}

/// Records the pairs of arguments that each call must check for overlap. Tensors that the plan
/// makes itself do not overlap others.
void PlanRecorder::keep_apart(const KernelInstance& kernel, const CallArgs& args,
                              const PlanStep& step) {
  if (kernel.may_alias()) return;
  const auto given = [&](std::size_t i) {
    const int slot = base_of(step.args[i].slot);
    return args.args[i].tensor && slot < slots::kMade ? slot : -1;
  };
  for (std::size_t i = 0; i < args.count; ++i) {
    if (given(i) < 0 || args.access[i] == detail::ViewAccess::In) continue;
    if (args.is_pointer[i] && !kernel.known().is_stored_through(i)) continue;
    for (std::size_t j = 0; j < args.count; ++j)
      if (j != i && given(j) >= 0) {
        // Number the tensors of the call by its arguments, which the caller knows.
        const bool are_arguments = std::max(given(i), given(j)) < slots::kCaptured;
        const std::size_t x = are_arguments ? static_cast<std::size_t>(given(i)) : i,
                          y = are_arguments ? static_cast<std::size_t>(given(j)) : j;
        plan_.apart.push_back({{given(i), given(j)},
                               {std::min(x, y), std::max(x, y)},
                               x,
                               kernel.name(),
                               kernel.loc()});
      }
  }
}

void PlanRecorder::note_access(const KernelInstance& kernel, const CallArgs& args,
                               const PlanStep& step) {
  for (std::size_t i = 0; i < args.count; ++i) {
    const int slot = base_of(step.args[i].slot);
    if (!args.args[i].tensor || slot < 0 || slot >= slots::kMade) continue;
    detail::ViewAccess access = args.access[i];
    if (args.is_pointer[i])
      access =
          kernel.known().is_stored_through(i) ? detail::ViewAccess::InOut : detail::ViewAccess::In;
    if (slot >= slots::kCaptured) {
      plan_.writes_captures |= access != detail::ViewAccess::In;
      continue;
    }
    const auto at = static_cast<std::size_t>(slot);
    if (is_used_[at] && plan_.access[at] != access) access = detail::ViewAccess::InOut;
    plan_.access[at] = access;
    is_used_[at] = true;
  }
}

void PlanRecorder::compile(KernelInstance& kernel, std::span<const HostArg> args,
                           CallArgs& run_time, PlanStep& step) const {
  if (mode_.target.empty()) {
    step.kernel = kernel.launcher.compiled_for(kernel, args, device_, run_time);
    if (device_.kind == DeviceKind::cuda) step.loaded = &step.kernel->on(device_.index);
    return;
  }
  KernelInstance& chosen = mode_.takes_winners ? chosen_kernel(kernel, args, device_) : kernel;
  std::vector<Warning> warnings;
  step.kernel =
      chosen.launcher.compiled_for_target(chosen, mode_.target, args, chosen.loc(), warnings);
  make_call_key(chosen, args, device_, run_time);  // includes captures of the trace
}

void PlanRecorder::launch(const std::shared_ptr<KernelInstance>& kernel,
                          std::span<const PlanBuilder::Given> given) {
  if (mode_.looks_at_launches) {
    plan_.looked_at.push_back({kernel, {given.begin(), given.end()}});
    return;
  }
  std::vector<HostArg> args;
  PlanStep step;
  step.made_at = kernel->loc();
  for (const PlanBuilder::Given& g : given) {
    args.push_back(argument(g));
    if (g.info.kind != detail::ParamKind::Constant)
      step.args.push_back({g.slot.index, args.back().bits});
  }
  CallArgs run_time;
  at_kernel(step.made_at, [&] { compile(*kernel, args, run_time, step); });
  const auto& captures = kernel->known().captures;
  for (std::size_t i = 0; step.args.size() < run_time.count; ++i)
    step.args.push_back({callable_.slot_of(captures[i])});
  keep_apart(*kernel, run_time, step);
  note_access(*kernel, run_time, step);
  plan_.steps.push_back(std::move(step));
}

}  // namespace tegula::dsl

namespace tegula {

Device PlanBuilder::device() const { return recorder_.device(); }
std::size_t PlanBuilder::size() const { return recorder_.size(); }
PlanSlot PlanBuilder::argument(std::size_t i) const {
  if (i >= size()) throw InternalError("a plan uses an argument that its call does not have");
  return {static_cast<int>(i)};
}
const Tensor& PlanBuilder::tensor(PlanSlot slot) const { return recorder_.tensor(slot.index); }

PlanSlot PlanBuilder::view(PlanSlot of, std::function<Tensor(const Tensor&)> of_tensor) {
  return recorder_.make({dsl::MadeTensor::From::view, of.index, std::move(of_tensor), {}});
}
PlanSlot PlanBuilder::with_rank(PlanSlot of, int rank) {
  if (tensor(of).rank() >= rank) return of;
  return view(of, [rank](const Tensor& t) { return t.with_rank(rank); });
}
PlanSlot PlanBuilder::scratch(const Dims& shape, DType dtype) {
  return recorder_.make({dsl::MadeTensor::From::scratch, -1, {}, shape, dtype});
}
PlanSlot PlanBuilder::broadcast_to(PlanSlot of, const Dims& shape) {
  if (tensor(of).shape() == shape) return of;
  return view(of, [shape](const Tensor& t) { return t.broadcast_to(shape); });
}
PlanSlot PlanBuilder::counters(std::int64_t count) {
  return recorder_.make({dsl::MadeTensor::From::counters, -1, {}, {count}, DType::u32});
}
PlanSlot PlanBuilder::fallback_flags() {
  return recorder_.make(
      {dsl::MadeTensor::From::fallback_flags, -1, {}, {Scratch::kFallbackWords}, DType::u32});
}
void PlanBuilder::add(const std::shared_ptr<dsl::KernelInstance>& kernel,
                      std::span<const Given> args) {
  recorder_.launch(kernel, args);
}

}  // namespace tegula
