// Products of ragged segments, assembled: wgmma on rings of TMA as a dense product, no spills.
#include "tests/assemble/assembled.h"

namespace tegula::test::segments_test {
namespace {

class AssembledSegments : public Assembled {};

auto grouped_product() {
  return kernel("grouped", [](In<bf16, 2> A, In<bf16, 3> B, In<i32, 1> offsets, Out<bf16, 2> C) {
    C.partial();
    for (auto [s, m, n] : grid(segments(offsets, A.rows()).by(C.cols()), 128, 256, group_m(8))) {
      Tile sum = zeros<f32>(128, 256);
      for (auto k : steps(A.cols(), 64)) sum = dot(A(m, k), B(s, k, n), sum);
      C(m, n) = sum;
    }
  });
}

class GroupedProduct : public AssembledSegments, public testing::WithParamInterface<bool> {};
INSTANTIATE_TEST_SUITE_P(Multicast, GroupedProduct, testing::Bool());

/// Also in clusters of two that multicast.
TEST_P(GroupedProduct, IsPersistentWgmma) {
  const auto plain = grouped_product();
  const auto grouped = GetParam() ? plain.prefer({.multicast = true}) : plain;
  const ir::Kernel tile = traced("grouped", [&] {
    grouped(host({64, 64}), host({4, 64, 256}),
            Tensor::from(std::vector<i32>{0, 1, 1, 64, 64}, Device::cpu()), host({64, 256}));
  });
  for (const runtime::Backend backend : here()) {
    const ir::Plan plan = expect_clean(tile, "sm_90a", true, backend);
    EXPECT_TRUE(plan.persistent) << plan.str();
    EXPECT_TRUE(plan.dynamic_scheduler) << plan.str();
    EXPECT_EQ(plan.multicast, GetParam()) << plan.str();
  }
}

}  // namespace
}  // namespace tegula::test::segments_test
