// Programs that read and overwrite what they have written: right on every device, with as few
// barriers as that takes.
#include <gtest/gtest.h>

#include "tests/differential/devices.h"
#include "tests/differential/programs_between.h"
#include "tests/placed_barriers.h"

namespace tegula::memory_order_test {
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

/// A barrier of the author's between k-iterations, where copies run ahead of the consumer warps.
TEST(MemoryOrder, ABarrierInAMainloop) {
  const auto matmul = kernel("matmul", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, 128, 128)) {
      Tile acc = zeros<f32>(128, 128);
      for (auto k : steps(A.cols(), 64)) {
        acc = dot(A(m, k), B(k, n), acc);
        barrier();
      }
      barrier();
      C(m, n) = acc;
    }
  });
  const auto run = [&](Device d) {
    const Tensor a = Tensor::integers({128, 192}, DType::bf16, -4, 4, 1, d),
                 b = Tensor::integers({192, 128}, DType::bf16, -4, 4, 2, d),
                 c = Tensor::empty({128, 128}, DType::f32, d);
    matmul(a, b, c);
    return c.to_doubles();
  };
  EXPECT_EQ(run(Device::sim()), run(Device::cpu()));
}

/// The programs correspond to their names.
TEST(MemoryOrder, ProgramsShareACta) {
  const Stream stream(Device::sim());
  EXPECT_GE(test::lock(Device::sim()).call(stream)->simt().info.threads, 128);
  EXPECT_TRUE(test::persistent_scratch(Device::sim()).call(stream)->plan.persistent);
  EXPECT_TRUE(test::pingpong_scratch(Device::sim()).call(stream)->plan.pingpong);
}

}  // namespace
}  // namespace tegula::memory_order_test
