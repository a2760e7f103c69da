// Every rung of the ladder is a plan that its kernel can have on Hopper, and computes the matmul;
// the test prints the plans.
#include "bench/ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <string>
#include <string_view>

#include "tegula/tegula.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::bench::ladder_test {
namespace {

using testing::HasSubstr;

/// The feature of the machine that a rung is there for, as remarks and the plan name it.
const std::map<std::string_view, std::string_view> kSigns{
    {"mma.sync, cp.async ring of 3", "pipelined by cp.async stages=3"},
    {"wgmma, TMA, the fewest slots", "loaded by TMA stages=2"},
    {"ring of 4", "loaded by TMA stages=4"},
    {"a warp that copies", "producer_warps=1 "},
    {"two warpgroups that compute", "plan { num_warps=8 "},
    {"a warpgroup that copies gives up registers", "consumer_registers=232 "},
    {"persistent", "persistent=1 "},
    {"stores by TMA", "applied: stored by TMA"},
    {"multicast", "shared=1"},
    {"warpgroups take tiles in turn", "pingpong=1 }"},
    {"groups of 8 rows of tiles", "pingpong=1 }"}};

TEST(Ladder, EveryRungIsCarriedOut) {
  const Stream sim(Device::sim());
  const Tensor operands[] = {Tensor::integers({384, 320}, DType::bf16, -2, 3, 1, Device::sim()),
                             Tensor::integers({320, 512}, DType::bf16, -2, 3, 2, Device::sim()),
                             Tensor::zeros({384, 512}, DType::bf16, Device::sim())};
  const auto want = test::product(operands[0], operands[1]);
  EXPECT_EQ(rungs().size(), kSigns.size());
  for (const Rung& rung : rungs()) {
    SCOPED_TRACE(rung.name);
    climb(rung, sim, operands);  // or CompileError: a field cannot be had
    test::expect_equal(operands[2], want);
    const std::string said = explain(rung);
    EXPECT_THAT(said, HasSubstr(kSigns.at(rung.name)));
    const std::size_t plan = said.find("plan {");
    std::printf("%s, %dx%d, group %d\n  %s\n", rung.name, rung.rows, rung.columns, rung.group,
                said.substr(plan, said.find('\n', plan) - plan).c_str());
  }
}

}  // namespace
}  // namespace tegula::bench::ladder_test
