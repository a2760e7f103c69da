// Programs that read and overwrite what they have written: right on every device, with as few
// barriers as that takes.
#include <gtest/gtest.h>

#include "ir/pipeline.h"
#include "runtime/jit.h"
#include "tests/differential/devices.h"
#include "tests/differential/memory_programs.h"

namespace tegula {
namespace {

int barriers_in(const ir::Kernel& k) {
  int count = 0;
  ir::walk(k, k.body(), [&](ir::OpId op) { count += k[op].opcode == ir::Opcode::CtaBarrier; });
  return count;
}

/// What the pass adds to a kernel that has been compiled.
int placed_barriers(const runtime::CompiledKernel& compiled) {
  ir::Kernel k = ir::clone(compiled.tile);
  k.info.target = compiled.simt.info.target;
  ir::PassContext context;
  context.plan = compiled.plan;
  for (const ir::Pass& pass : ir::ir_passes()) {
    const int before = barriers_in(k);
    pass.run(k, context);
    k.info.form = pass.leaves;
    if (pass.name == "memory_order") return barriers_in(k) - before;
  }
  return -1;
}

class MemoryOrder : public testing::TestWithParam<std::tuple<Device, std::size_t>> {};
INSTANTIATE_TEST_SUITE_P(Devices, MemoryOrder,
                         testing::Combine(testing::ValuesIn(test::devices()),
                                          testing::Range(std::size_t{0},
                                                         std::size(test::kMemoryPrograms))),
                         [](const auto& info) {
                           const std::size_t i = std::get<1>(info.param);
                           return test::name_of(std::get<0>(info.param)) + "_" +
                                  test::kMemoryPrograms[i](Device::cpu()).name;
                         });

TEST_P(MemoryOrder, IsThatOfTheProgram) {
  const auto& [device, i] = GetParam();
  const test::MemoryProgram p = test::kMemoryPrograms[i](device);
  p.call(Stream(device));
  const auto got = p.args[p.result].to_doubles();
  ASSERT_EQ(got.size(), p.want.size());
  int wrong = 0;
  for (std::size_t e = 0; e < got.size(); ++e)
    if (got[e] != p.want[e] && wrong++ < 3)
      ADD_FAILURE() << p.name << "[" << e << "] is " << got[e] << " instead of " << p.want[e];
  EXPECT_EQ(wrong, 0);
}

TEST(MemoryOrder, TakesNoMoreBarriersThanItMust) {
  for (const test::MakeProgram make : test::kMemoryPrograms) {
    const test::MemoryProgram p = make(Device::sim());
    if (p.barriers < 0) continue;
    EXPECT_EQ(placed_barriers(*p.call(Stream(Device::sim()))), p.barriers) << p.name;
  }
}

}  // namespace
}  // namespace tegula
