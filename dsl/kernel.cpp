// Implements the public functions on kernel instances.
#include "tegula/kernel.h"

#include "dsl/instance.h"
#include "ir/text.h"

namespace tegula {

std::string Trace::text(bool locations) const {
  return ir::print(result_->kernel, {.locations = locations});
}
const ir::Kernel& Trace::kernel() const { return result_->kernel; }
const std::vector<Diagnostic>& Trace::warnings() const { return result_->warnings; }

namespace detail {

std::shared_ptr<dsl::KernelInstance> make_instance(const char* name, Loc loc, const void* object,
                                                   const ClosureType& type) {
  std::shared_ptr<const void> owned(object, type.destroy);
  return std::make_shared<dsl::KernelInstance>(dsl::Closure{type, name, loc, std::move(owned), {}},
                                               dsl::KernelOptions{});
}
std::shared_ptr<dsl::KernelInstance> with_tuning(const dsl::KernelInstance& instance,
                                                 const Tuning& tuning, Loc at) {
  return instance.with(tuning, at);
}
std::shared_ptr<dsl::KernelInstance> allowing_alias(const dsl::KernelInstance& instance) {
  return instance.allowing_alias();
}
std::shared_ptr<dsl::KernelInstance> with_plan(const dsl::KernelInstance& instance,
                                               std::string_view text, Loc at) {
  try {
    return instance.planned(ir::parse_plan_request(text, at));
  } catch (const CompileError& e) {
    Diagnostic said = e.diagnostic();
    said.loc = at;
    throw CompileError(std::move(said));
  }
}
std::shared_ptr<dsl::KernelInstance> with_plan(const dsl::KernelInstance& instance,
                                               const PlanPatch& fields, Loc at) {
  return instance.planned({.requested = fields, .schedule = {}, .at = at});
}
std::shared_ptr<dsl::KernelInstance> preferring(const dsl::KernelInstance& instance,
                                                const PlanPatch& fields) {
  return instance.preferring(fields);
}
std::shared_ptr<dsl::KernelInstance> with_names(const dsl::KernelInstance& instance,
                                                std::span<const char* const> names, Loc at) {
  return instance.named(names, at);
}
Trace trace(dsl::KernelInstance& instance, std::span<const HostArg> args) {
  return Trace(std::make_shared<const dsl::TraceResult>(instance.trace(instance.signature(args))));
}

}  // namespace detail
}  // namespace tegula
