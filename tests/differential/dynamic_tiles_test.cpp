// Dynamic (plan.dynamic_scheduler) and static tile schedulers give the same results; the simulator
// finds faults planted in the lowering of the counter.
#include <functional>
#include <optional>

#include "codegen/sim/simulator.h"
#include "dsl/instance.h"
#include "ir/builder.h"
#include "runtime/jit.h"
#include "support/env.h"
#include "tegula/kernels/masks.h"
#include "tests/differential/attention_expected.h"
#include "tests/differential/ragged_matmul.h"

namespace tegula::dynamic_tiles_test {
using namespace kernels;
namespace {

using test::AttentionInputs;
using test::UnevenInputs;

EnvOverride with_plan(const char* plan) {
  Env wanted = env();
  wanted.plan = plan;
  return EnvOverride(wanted);
}

class DynamicTiles : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, DynamicTiles, testing::ValuesIn(test::devices()),
                         test::device_name);

/// No tile, one, fewer than programs (the simulator has four), as many, and many; each twice, so
/// that the second launch begins with the counter that the first one leaves.
TEST_P(DynamicTiles, AnyNumber) {
  for (const char* plan :
       {"", "dynamic_scheduler=0", "producer_warps=0 consumer_registers=0", "stages=2"}) {
    SCOPED_TRACE(plan);
    const EnvOverride scope = with_plan(plan);
    const auto product = test::uneven_product();
    for (const std::int64_t rows : {0, 1, 3, 4, 5, 14}) {
      SCOPED_TRACE(rows);
      const UnevenInputs in(rows, GetParam());
      for (int launch = 0; launch < 2; ++launch) {
        const Tensor C = in.result();
        product(in.A, in.B, in.blocks, C);
        EXPECT_EQ(C.to_doubles(), in.expected());
      }
    }
    if (GetParam().kind == DeviceKind::cpu) continue;
    const char* chosen = std::string_view(plan) == "dynamic_scheduler=0" ? "dynamic_scheduler=0"
                                                                         : "dynamic_scheduler=1";
    EXPECT_NE(product.explain().find(chosen), std::string::npos) << product.explain();
  }
}

/// Packed documents with a block list, for head dims of both kinds of roles.
TEST_P(DynamicTiles, Documents) {
  for (const char* plan : {"", "dynamic_scheduler=0"}) {
    SCOPED_TRACE(plan);
    const EnvOverride scope = with_plan(plan);
    for (const std::int64_t dim : {64, 128}) {
      const AttentionInputs in({2, 3}, 1, 700, 700, dim, GetParam());
      std::vector<i32> ids;
      for (int i = 0; i < 700; ++i) ids.push_back(i < 30 ? 0 : i < 500 ? 1 : i / 100);
      const Tensor document = Tensor::from(ids, GetParam());
      const Attention a =
          attention({.mask = masks::and_(masks::causal(), masks::document(document))});
      test::expect_near(in.run(a), in.expected([&](auto, auto, auto q, auto kv) {
        return q >= kv && ids[static_cast<std::size_t>(q)] == ids[static_cast<std::size_t>(kv)];
      }));
      if (GetParam().kind == DeviceKind::cpu) continue;
      const char* chosen = *plan == 0 ? "dynamic_scheduler=1" : "dynamic_scheduler=0";
      EXPECT_NE(a.explain().find(chosen), std::string::npos) << a.explain();
    }
  }
}

/// Tiles of equal work, or of work known from the launch, are assigned statically.
TEST(DynamicTilesPlan, EvenWorkAreStatic) {
  const AttentionInputs in({1, 1}, 1, 200, 200, 64, Device::sim());
  for (const Mask& mask : {Mask(), masks::causal(), masks::sliding_window(Scalar<i32>(20))}) {
    const Attention a = attention({.mask = mask});
    in.run(a);
    EXPECT_NE(a.explain().find("persistent=1 dynamic_scheduler=0"), std::string::npos)
        << a.explain();
  }
}

// ---- planted faults
using namespace ir;

/// The lowered matmul, to be broken and run.
class Planted : public testing::Test {
 protected:
  Planted() : in_(9, Device::sim()), C_(in_.result()) {
    product_(in_.A, in_.B, in_.blocks, C_);
    kernel_ = product_.instance().launcher.latest();
    k_.emplace(clone(kernel_->simt()));
    walk(*k_, k_->body(), [&](OpId op) {
      if ((*k_)[op].opcode == Opcode::Shfl && (*k_)[op].attrs.s(AttrName::mode) == "idx" &&
          (*k_)[(*k_)[(*k_)[op].operands[0]].def].opcode == Opcode::LdShared)
        taken_ = op;
      if ((*k_)[op].opcode == Opcode::Roles) roles_ = op;
      if ((*k_)[op].opcode == Opcode::AtomGlobal) fetch_ = op;
    });
    walk(*k_, (*k_)[roles_].regions[1], [&](OpId op) {
      if ((*k_)[op].opcode == Opcode::StShared) put_ = op;
    });
  }

  /// The next op of that kind before or after `op` in its region.
  OpId near(OpId op, Opcode kind, bool before) const {
    do op = before ? (*k_)[op].prev : (*k_)[op].next;
    while ((*k_)[op].opcode != kind);
    return op;
  }

  /// At least one order of warps and programs shows the fault.
  std::vector<sim::Detector> run() {
    const LaunchArgs args{{&in_.A, 0}, {&in_.B, 0}, {&in_.blocks, 0}, {&C_, 0}};
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      std::vector<codegen::TensorMap> maps;
      sim::SimOptions options;
      options.seed = seed;
      counter_ = 0;
      const auto report = sim::simulate(
          *k_, {4, 1, 1}, runtime::sim_args(kernel_->artefact().recipe, args, maps, &counter_),
          options);
      std::vector<sim::Detector> found;
      for (const auto& f : report.findings) found.push_back(f.kind);
      if (!found.empty()) return found;
    }
    return {};
  }
  bool finds(sim::Detector kind) {
    const auto found = run();
    return std::ranges::find(found, kind) != found.end();
  }

  using LaunchArgs = std::vector<runtime::LaunchArg>;
  UnevenInputs in_;
  Tensor C_;
  test::UnevenProduct product_ = test::uneven_product();
  std::shared_ptr<const runtime::CompiledKernel> kernel_;
  std::optional<ir::Kernel> k_;
  OpId taken_, put_, roles_, fetch_;
  std::uint32_t counter_ = 0;
};

TEST_F(Planted, Nothing) {
  EXPECT_TRUE(run().empty());
  EXPECT_EQ(counter_, 0u);
  EXPECT_EQ(C_.to_doubles(), in_.expected());
}
TEST_F(Planted, NoRelease) {
  k_->erase(near(taken_, Opcode::MbarArrive, false));
  EXPECT_TRUE(finds(sim::Detector::Deadlock));
}
TEST_F(Planted, NoWaitForTheNumber) {
  k_->erase(near(taken_, Opcode::MbarWait, true));
  EXPECT_FALSE(run().empty());
}
TEST_F(Planted, NoWaitForTheRelease) {
  k_->erase(near(put_, Opcode::MbarWait, true));
  EXPECT_TRUE(finds(sim::Detector::SharedRace));
}
TEST_F(Planted, NumberAfterItsArrival) {
  const OpId behind = (*k_)[near(put_, Opcode::MbarArrive, false)].next;
  k_->unlink(put_);
  k_->insert_before(behind, put_);
  EXPECT_TRUE(finds(sim::Detector::SharedRace));
}
TEST_F(Planted, ACounterThatIsNotSetBack) {
  (*k_)[fetch_].attrs.set(AttrName::kind, "add");
  run();
  EXPECT_NE(counter_, 0u);
}

}  // namespace
}  // namespace tegula::dynamic_tiles_test
