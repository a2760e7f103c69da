#include "ir/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace tegula::ir {

int Plan::producer_registers(const TargetRow& target) const {
  const int num_warps = consumer_warps(), unit = target.register_unit;
  const int available =
      registers_at_entry(target) * (num_warps + producer_warps) - consumer_registers * num_warps;
  return available / std::max(producer_warps, 1) / unit * unit;
}

std::string Plan::str() const {
  std::string out = "plan { ";
#define PLAN_FIELD(type, name, fallback, doc) \
  fmt::format_to(std::back_inserter(out), #name "={} ", static_cast<int>(name));
#include "ir/plan.def"
#undef PLAN_FIELD
  return out + "}";
}

void Plan::apply(const PlanPatch& patch) {
#define PLAN_FIELD(type, name, fallback, doc) name = patch.name.value_or(name);
#include "ir/plan.def"
#undef PLAN_FIELD
}

std::string Plan::first_mismatch(const PlanPatch& patch) const {
#define PLAN_FIELD(type, name, fallback, doc) \
  if (patch.name && *patch.name != name)      \
    return fmt::format(#name "={}", static_cast<int>(*patch.name));
#include "ir/plan.def"
#undef PLAN_FIELD
  return {};
}

}  // namespace tegula::ir
