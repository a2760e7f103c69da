#include "ir/passes/schedule/producer_warps.h"

namespace tegula::ir {
namespace {

/// Registers per thread beyond which a producer does not benefit from more.
constexpr int kProducerRegisters = 40;

}  // namespace

void add_producer_warps(Plan& plan, const TargetRow& target, std::int64_t useful,
                        std::int64_t needed) {
  plan.producer_warps = 1;
  if (useful <= plan.registers_at_entry(target)) return;
  Plan given = plan;
  given.producer_warps = kWarpgroupWarps;
  const auto beside = [&](int kept) {
    return target.setmaxnreg_beside(given.consumer_warps(), given.producer_warps, kept);
  };
  given.consumer_registers = beside(kProducerRegisters);
  if (needed > given.consumer_registers) given.consumer_registers = beside(target.least_setmaxnreg);
  if (given.consumer_registers > given.registers_at_entry(target)) plan = given;
}

}  // namespace tegula::ir
