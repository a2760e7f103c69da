#include "ir/passes/schedule/producer_warps.h"

#include <algorithm>

#include "ir/analysis/page_boxes.h"

namespace tegula::ir {
namespace {

/// Registers per thread beyond which a producer does not benefit from more. A producer that holds
/// the page of each of at least kManyBoxes boxes spills with fewer than kRegistersOfManyBoxes.
constexpr int kProducerRegisters = 40, kRegistersOfManyBoxes = 56;
constexpr std::int64_t kManyBoxes = 8;

/// Returns the largest number of boxes of pages that form one loaded tile; 0 without pages.
std::int64_t most_boxes(const Kernel& k) {
  std::int64_t most = 0;
  walk(k, k.body(), [&](OpId op) {
    if (k[op].opcode != Opcode::LoadView || !k.type(k[op].results[0]).is_tile()) return;
    if (const auto pages = page_boxes(k, k[op]))
      most = std::max(most, k.type(k[op].results[0]).shape()[0] / pages->rows);
  });
  return most;
}

}  // namespace

void add_producer_warps(Plan& plan, const Kernel& k, std::int64_t useful, std::int64_t needed) {
  const TargetRow& target = *k.info.target;
  plan.producer_warps = 1;
  if (useful <= plan.registers_at_entry(target)) return;
  Plan given = plan;
  given.producer_warps = kWarpgroupWarps;
  const auto beside = [&](int kept) {
    return target.max_consumer_registers(given.consumer_warps(), given.producer_warps, kept);
  };
  given.consumer_registers =
      beside(most_boxes(k) >= kManyBoxes ? kRegistersOfManyBoxes : kProducerRegisters);
  if (needed > given.consumer_registers) given.consumer_registers = beside(target.least_setmaxnreg);
  if (given.consumer_registers > given.registers_at_entry(target)) plan = given;
}

}  // namespace tegula::ir
