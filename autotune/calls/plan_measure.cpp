#include "autotune/calls/plan_measure.h"

#include <fmt/format.h>

#include "autotune/user/compiled_candidates.h"
#include "support/warnings.h"
#include "tegula/error.h"

namespace tegula::autotune {

PlanMeasure::PlanMeasure(const dsl::FirstCall& call, const dsl::CallPlan& plan,
                         const Decision& decision, const std::vector<std::string>& texts,
                         const DecisionScope::Given& given, const TuneOptions& options)
    : call_(call), decision_(decision), texts_(texts), given_(given), options_(options) {
  add_tensors(plan);
  launches_ = measure_here(tensors_, call.stream().device(), {options.may_change_bits});
}

/// A tensor that is given twice is copied once, as one that is read and written.
void PlanMeasure::add_tensors(const dsl::CallPlan& plan) {
  const std::span<const dsl::HostArg> args = call_.args();
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Tensor* t = args[i].tensor;
    tensor_of_.push_back(-1);
    if (t == nullptr || !t->defined()) continue;
    for (std::size_t j = 0; j < i && tensor_of_[i] < 0; ++j)
      if (tensor_of_[j] >= 0 && args[j].tensor->data() == t->data() &&
          args[j].tensor->shape() == t->shape() && args[j].tensor->strides() == t->strides())
        tensor_of_[i] = tensor_of_[j];
    if (tensor_of_[i] < 0) {
      tensor_of_[i] = static_cast<int>(tensors_.size());
      tensors_.push_back({*t, plan.access[i], i});
      continue;
    }
    MeasuredTensor& same = tensors_[static_cast<std::size_t>(tensor_of_[i])];
    if (same.access != plan.access[i]) same.access = detail::ViewAccess::InOut;
  }
}

Prepared PlanMeasure::compile(int candidate, Plan& made) const {
  Prepared out;
  try {
    const WarningsMuted muted;  // a loser's are nobody's concern
    DecisionScope::Given given = given_;
    given[decision_.key()] = texts_[static_cast<std::size_t>(candidate)];
    const DecisionScope scope(given);
    made = call_.build();
    for (const dsl::PlanStep& step : made->steps)
      add_code(out, *step.kernel, call_.stream().device());
  } catch (const Error& e) {
    if (candidate == 0) throw;  // the call itself
    out.verdict = Verdict::refused;
    out.why = e.what();
  }
  return out;
}

void PlanMeasure::load(int candidate, const Plan& plan) {
  const auto run = [this, plan](const Stream& stream, const ArgumentCopy& copy) {
    std::vector<dsl::HostArg> args(call_.args().begin(), call_.args().end());
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (tensor_of_[i] < 0) continue;
      args[i].tensor = &copy.tensor(static_cast<std::size_t>(tensor_of_[i]));
      if (args[i].kind == dsl::ParamKind::Pointer)
        args[i].bits = reinterpret_cast<std::uintptr_t>(args[i].tensor->data());
    }
    call_.run(*plan, stream, args);
  };
  launches_->load(candidate, {nullptr, {}, run});
}

std::vector<Prepared> PlanMeasure::prepare(std::span<const int> candidates) {
  std::vector<Prepared> out(candidates.size());
  std::vector<Plan> made(candidates.size());
  on_all_threads(candidates.size(),
                 [&](std::size_t i) { out[i] = compile(candidates[i], made[i]); });
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (out[i].verdict == Verdict::ok) load(candidates[i], made[i]);
  if (options_.progress)
    options_.progress(fmt::format("compiled {} configurations more", candidates.size()));
  return out;
}

}  // namespace tegula::autotune
