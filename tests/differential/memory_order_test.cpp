// Programs that read and overwrite what they have written: right on every device, with as few
// barriers as that takes.
#include <gtest/gtest.h>

#include "tests/differential/devices.h"
#include "tests/differential/programs_between.h"
#include "tests/placed_barriers.h"

namespace tegula {
namespace {

std::vector<test::MakeProgram> programs() {
  std::vector<test::MakeProgram> list(std::begin(test::kMemoryPrograms),
                                      std::end(test::kMemoryPrograms));
  list.insert(list.end(), std::begin(test::kProgramsBetween), std::end(test::kProgramsBetween));
  return list;
}

class MemoryOrder : public testing::TestWithParam<std::tuple<Device, std::size_t>> {};
INSTANTIATE_TEST_SUITE_P(Devices, MemoryOrder,
                         testing::Combine(testing::ValuesIn(test::devices()),
                                          testing::Range(std::size_t{0}, programs().size())),
                         [](const auto& info) {
                           const std::size_t i = std::get<1>(info.param);
                           return test::name_of(std::get<0>(info.param)) + "_" +
                                  programs()[i](Device::cpu()).name;
                         });

TEST_P(MemoryOrder, IsThatOfTheProgram) {
  const auto& [device, i] = GetParam();
  const test::MemoryProgram p = programs()[i](device);
  for (int call = 0; call < p.calls; ++call) p.call(Stream(device));
  const auto got = p.args[p.result].to_doubles();
  ASSERT_EQ(got.size(), p.want.size());
  int wrong = 0;
  for (std::size_t e = 0; e < got.size(); ++e)
    if (got[e] != p.want[e] && wrong++ < 3)
      ADD_FAILURE() << p.name << "[" << e << "] is " << got[e] << " instead of " << p.want[e];
  EXPECT_EQ(wrong, 0);
}

TEST(MemoryOrder, TakesNoMoreBarriersThanItMust) {
  for (const test::MakeProgram make : programs()) {
    const test::MemoryProgram p = make(Device::sim());
    if (p.barriers < 0) continue;
    EXPECT_EQ(test::placed_barriers(*p.call(Stream(Device::sim()))), p.barriers) << p.name;
  }
}

/// The programs are what their names say.
TEST(MemoryOrder, ProgramsShareACta) {
  const Stream stream(Device::sim());
  EXPECT_GE(test::lock(Device::sim()).call(stream)->simt().info.threads, 128);
  EXPECT_TRUE(test::persistent_scratch(Device::sim()).call(stream)->plan.persistent);
  EXPECT_TRUE(test::pingpong_scratch(Device::sim()).call(stream)->plan.pingpong);
}

}  // namespace
}  // namespace tegula
