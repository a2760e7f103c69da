#include "ir/target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "tegula/int_math.h"

namespace tegula::ir {

std::span<const Target> Target::all() {
  static const std::vector<Target> kAll = [] {
    std::vector<Target> all;
    for (const TargetRow& row : detail::kTargets) all.push_back(Target(row));
    return all;
  }();
  return kAll;
}

std::string Target::all_names() {
  std::vector<std::string_view> names;
  for (const Target target : all()) names.push_back(target.name());
  return fmt::format("{}", fmt::join(names, " and "));
}

Target Target::of_capability(int capability) {
  Target best(detail::kTargets[0]);
  for (const Target target : all())
    if (target->is_specific ? target->capability == capability : target->capability <= capability)
      best = target;
  return best;
}

std::string Target::assembled_for(int capability) const {
  const bool is_known =
      std::ranges::any_of(all(), [&](Target target) { return target->capability == capability; });
  if (row_->is_specific || !is_known || capability == row_->capability) return std::string(name());
  return fmt::format("sm_{}", capability);
}

int ctas_per_sm(const TargetRow& target, const CtaNeeds& needs) {
  const int threads = std::max(32, needs.threads);
  const int registers = round_up(needs.registers, target.register_unit) * threads;
  const int by_registers =
      registers > 0 ? target.registers_per_sm / registers : target.max_ctas_per_sm;
  const auto by_shared = static_cast<int>(target.shared_bytes_per_sm /
                                          (needs.shared_bytes + target.shared_bytes_reserved));
  return std::min(
      {target.max_ctas_per_sm, target.max_threads_per_sm / threads, by_registers, by_shared});
}

}  // namespace tegula::ir
