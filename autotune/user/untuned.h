#pragma once
// Values of tune() for calls that nobody has tuned (docs/untuned.md).
#include <optional>
#include <span>

#include "dsl/instance.h"

namespace tegula::autotune {

/// Maximum number of combinations of values that a choice compares.
inline constexpr std::size_t kMaxCompared = 128;

/// Returns the values with the shortest estimated time for a call of these shapes, and the ranking.
/// Values that the kernel's author or `with` gave are kept. Returns nothing if no combination
/// compiles. The choice depends only on the kernel, the shapes and the GPU's model.
std::optional<dsl::TunedChoice> choose_untuned(dsl::KernelInstance& kernel,
                                               std::span<const dsl::HostArg> args, Device device);

/// Returns `preferred`, or no fields if a pass rejects the kernel with them.
PlanPatch accepted_fields(const dsl::KernelInstance& kernel, const PlanPatch& preferred,
                          std::span<const dsl::HostArg> args, Device device);

/// Returns the fields of the plan, apart from the values of tune(), that shorten the estimated time
/// of a call of a kernel whose values are given: `multicast`, or none, also if a pass rejects the
/// kernel with it.
PlanPatch preferred_plan(const dsl::KernelInstance& kernel, std::span<const dsl::HostArg> args,
                         Device device);

}  // namespace tegula::autotune
