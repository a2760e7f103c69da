// A sum of rows that programs share (arrive_and_test_last), and what its lowering could get wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "codegen/sim/simulator.h"
#include "dsl/instance.h"
#include "dsl/launcher.h"
#include "ir/builder.h"
#include "runtime/jit.h"
#include "tegula/memory.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::last_arriver_test {
namespace {

constexpr int kRows = 8, kColumns = 256, kParts = 5;

/// Y[g] = the sum of X[g]'s rows: each program adds some of a group's rows, and of a group's
/// programs the last one adds what they have; twice, so that what is told comes through memory used
/// before.
auto shared_sum() {
  return kernel("shared_sum", [](In<f32, 3> X, Out<f32, 2> Y, InOut<f32, 3> sums,
                                 Ptr<u32> counters) {
    for (auto [g, p] : grid(GridSpace({X.dim(0) / 2, sums.dim(1)}), 1, 1))
      for (auto half : steps(2, 1)) {
        const Index group = slice(g.first() * 2 + half.first(), 1), columns = slice(0, kColumns);
        sums(group, p, columns) = sum(X(group, slice(p.first() * kRows, kRows), columns), axis(0));
        if_(arrive_and_test_last(counters + group.first(), kParts), [&] {
          Tile all = zeros<f32>(kColumns);
          for (auto part : steps(kParts, 1))
            all = all + fill_absent(sums(group, part, columns), any_value);
          Y(group, columns) = all;
        });
      }
  });
}
using SharedSum = decltype(shared_sum());

struct Inputs {
  explicit Inputs(Device device)
      : X(Tensor::integers({6, kRows * kParts, kColumns}, DType::f32, -9, 9, 1, device)),
        Y(Tensor::zeros({6, kColumns}, DType::f32, device)),
        sums(Tensor::zeros({6, kParts, kColumns}, DType::f32, device)),
        counters(Tensor::zeros({6}, DType::u32, device)) {}
  std::vector<double> expected() const {
    const auto x = X.to_doubles();
    std::vector<double> y(6 * kColumns);
    for (std::size_t i = 0; i < x.size(); ++i)
      y[i / (kRows * kParts * kColumns) * kColumns + i % kColumns] += x[i];
    return y;
  }
  Tensor X, Y, sums, counters;
};

class ArriveAndTestLast : public test::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, ArriveAndTestLast, testing::ValuesIn(test::devices()),
                         test::device_name);

/// The second launch finds the counters as the first has left them.
TEST_P(ArriveAndTestLast, AddsTheValuesOfAllPrograms) {
  const Inputs in(GetParam());
  const auto product = shared_sum();
  for (int launch = 0; launch < 2; ++launch) {
    product(stream(), in.X, in.Y, in.sums, in.counters);
    test::expect_equal(in.Y, in.expected());
  }
  for (double count : in.counters.to_doubles()) EXPECT_EQ(count, 0);
}

// ---- planted faults
using namespace ir;

/// The lowered kernel, to be broken and run.
class PlantedArrival : public testing::Test {
 protected:
  PlantedArrival() : in_(Device::sim()) {
    kernel_function_(Stream(Device::sim()), in_.X, in_.Y, in_.sums, in_.counters);
    kernel_ = kernel_function_.instance().launcher.latest();
    k_.emplace(clone(kernel_->simt()));
    walk(*k_, k_->body(), [&](OpId op) {
      if ((*k_)[op].opcode == Opcode::AtomGlobal) count_ = op;
    });
    in_ = Inputs(Device::sim());
  }

  OpId barrier(bool before) const {
    OpId op = count_;
    do op = before ? (*k_)[op].prev : (*k_)[op].next;
    while ((*k_)[op].opcode != Opcode::BarSync);
    return op;
  }

  /// The races that some order of warps and programs shows.
  std::vector<sim::Detector> run() {
    const std::vector<runtime::LaunchArg> args{
        {&in_.X, 0}, {&in_.Y, 0}, {&in_.sums, 0}, {&in_.counters, address_of(in_.counters)}};
    std::vector<sim::Detector> found;
    for (std::uint64_t seed = 1; seed <= 20 && found.empty(); ++seed) {
      std::vector<codegen::TensorMap> maps;
      sim::SimOptions options;
      options.seed = seed;
      const auto report =
          sim::simulate(*k_, {3 * kParts, 1, 1},
                        runtime::sim_args(kernel_->artefact().recipe, args, maps), options);
      for (const auto& f : report.findings) found.push_back(f.kind);
    }
    return found;
  }
  bool finds(sim::Detector kind) {
    const auto found = run();
    return std::ranges::find(found, kind) != found.end();
  }
  static std::uint64_t address_of(const Tensor& t) {
    return reinterpret_cast<std::uint64_t>(t.data());
  }

  Inputs in_;
  SharedSum kernel_function_ = shared_sum();
  std::shared_ptr<const runtime::CompiledKernel> kernel_;
  std::optional<ir::Kernel> k_;
  OpId count_;
};

TEST_F(PlantedArrival, Nothing) {
  EXPECT_TRUE(run().empty());
  test::expect_equal(in_.Y, in_.expected());
}
TEST_F(PlantedArrival, NoBarrierBeforeTheCount) {
  k_->erase(barrier(true));
  EXPECT_TRUE(finds(sim::Detector::SharedRace));
}
TEST_F(PlantedArrival, NoBarrierBeforeTheAnswerIsRead) {
  k_->erase(barrier(false));
  EXPECT_TRUE(finds(sim::Detector::SharedRace));
}
TEST_F(PlantedArrival, ACounterThatIsNotSetBack) {
  (*k_)[count_].attrs.set(AttrName::kind, "add");
  run();
  EXPECT_NE(in_.counters.to_doubles()[0], 0);
}

}  // namespace
}  // namespace tegula::last_arriver_test
