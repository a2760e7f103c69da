#include "autotune/calls/plan_launches.h"

#include <optional>

#include "tegula/scratch.h"

namespace tegula::autotune {
namespace {

/// Placeholder for memory whose address differs between processes.
void* some_address() { return reinterpret_cast<void*>(std::uintptr_t{1} << 20); }

}  // namespace

/// The current tensor of a slot, and the owner of its memory: the call or the candidate.
struct CallTensors::Slot {
  std::optional<Tensor> tensor;
  std::optional<Tensor> base;
  int of_call = -1, made = -1;
  std::uint64_t bits = 0;

  MeasuredArg arg() const {
    MeasuredArg a{of_call, false, bits, made, {}};
    if (!tensor) return a;
    a.is_address = true;
    if (made < 0 && is_same(*tensor, *base)) return a;
    const auto* const first = static_cast<const char*>(base->data());
    a.view = {static_cast<const char*>(tensor->data()) - first, tensor->dtype(), tensor->shape(),
              tensor->strides()};
    return a;
  }
};

int CallTensors::add(const Tensor& tensor, detail::ViewAccess access, std::size_t position) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    MeasuredTensor& known = tensors_[i];
    if (!is_same(known.tensor, tensor)) continue;
    if (known.access != access) known.access = detail::ViewAccess::InOut;
    return static_cast<int>(i);
  }
  tensors_.push_back({tensor, access, position});
  return static_cast<int>(tensors_.size() - 1);
}

void CallTensors::add_arguments(const dsl::CallPlan& plan) {
  const std::span<const dsl::HostArg> args = call_.args();
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Tensor* const t = args[i].tensor;
    const bool is_given = t != nullptr && t->defined();
    tensor_of_.push_back(is_given ? add(*t, plan.access[i], i) : -1);
  }
}

CallTensors::Slot CallTensors::argument(const dsl::HostArg& arg, int tensor) const {
  Slot slot;
  slot.bits = arg.bits;
  slot.of_call = tensor;
  if (tensor >= 0) slot.tensor = slot.base = tensors_[static_cast<std::size_t>(tensor)].tensor;
  return slot;
}

std::vector<CallTensors::Slot> CallTensors::slots_of(const dsl::CallPlan& plan,
                                                     LoadedCandidate& out) {
  std::vector<Slot> all(dsl::slots::kEnd);
  for (std::size_t i = 0; i < call_.args().size(); ++i)
    all[i] = argument(call_.args()[i], tensor_of_[i]);
  const std::vector<dsl::HostArg> captured = call_.captured();
  for (std::size_t i = 0; i < captured.size(); ++i) {
    const Tensor* const t = captured[i].tensor;
    const int at = t != nullptr && t->defined()
                       ? add(*t, detail::ViewAccess::In, call_.args().size() + i)
                       : -1;
    all[dsl::slots::kCaptured + i] = argument(captured[i], at);
  }
  for (std::size_t i = 0; i < plan.made.size(); ++i) {
    const dsl::MadeTensor& m = plan.made[i];
    Slot& slot = all[dsl::slots::kMade + i];
    if (m.from == dsl::MadeTensor::From::view) {
      slot = all[static_cast<std::size_t>(m.of)];
      slot.tensor = m.view_of(*slot.tensor);
      continue;
    }
    slot.made = static_cast<int>(out.made.size());
    slot.tensor = slot.base =
        Tensor::borrow(some_address(), m.shape, m.dtype, call_.stream().device());
    out.made.push_back(static_cast<std::int64_t>(Scratch::bytes_of(m.shape, m.dtype)));
  }
  return all;
}

LoadedCandidate CallTensors::candidate_of(const dsl::CallPlan& plan) {
  LoadedCandidate out;
  const std::vector<Slot> slots = slots_of(plan, out);
  for (const dsl::PlanStep& step : plan.steps) {
    MeasuredLaunch& launch = out.launches.emplace_back();
    launch.kernel = step.kernel;
    for (const dsl::StepArg& a : step.args)
      launch.args.push_back(a.slot < 0 ? MeasuredArg{.bits = a.bits}
                                       : slots[static_cast<std::size_t>(a.slot)].arg());
  }
  return out;
}

}  // namespace tegula::autotune
