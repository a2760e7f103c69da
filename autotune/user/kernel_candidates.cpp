#include "autotune/user/kernel_candidates.h"

#include "autotune/user/argument_copies.h"
#include "dsl/errors.h"

namespace tegula::autotune {

KernelCandidates::KernelCandidates(dsl::KernelInstance& kernel, const UserSpace& space,
                                   std::span<const dsl::HostArg> args)
    : kernel_(kernel), space_(space), args_(args), access_(access_of(kernel.params())) {
  for (std::size_t i = 0; i < args.size(); ++i)
    if (args[i].kind == dsl::ParamKind::Pointer && args[i].tensor == nullptr)
      fail(ErrorId::tuned_address, kernel.loc(), {}, kernel.callee().argument(i));
}

/// Code that the passes already degrade is the slowest to assemble, and loses to any that is not.
Prepared KernelCandidates::compile(int candidate, const Stream& stream) {
  Prepared out;
  const auto instance = kernel_.with(space_.settings[static_cast<std::size_t>(candidate)]);
  if (candidate != 0 && !is_degraded_ && !stream.device().on_host()) {
    out.why = defects_of(instance->launcher.try_passes(*instance, stream.device(), args_));
    if (!out.why.empty()) {
      out.verdict = Verdict::refused;
      return out;
    }
  }
  add_code(out, *instance->launcher.prepare(*instance, &stream, args_), stream.device());
  if (candidate == 0) is_degraded_ = out.is_degraded;
  const std::lock_guard lock(mutex_);
  made_[candidate] = instance;
  return out;
}

void KernelCandidates::run(int candidate, const Stream& stream,
                           std::span<const dsl::HostArg> args) {
  const auto& instance = made_.at(candidate);
  instance->launcher.launch(*instance, &stream, args);
}

void KernelCandidates::forget(int candidate) { made_.erase(candidate); }

}  // namespace tegula::autotune
