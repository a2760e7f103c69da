// Copies of any strides and types, and operands repacked into a form that TMA loads.
#include "tegula/kernels/copy.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

#include "kernels/copy/copy_slots.h"
#include "tegula/error.h"
#include "tests/differential/devices.h"

namespace tegula::test::copy_test {
using namespace kernels;
namespace {

class Copies : public testing::TestWithParam<Device> {
 protected:
  Tensor integers(const Dims& shape, DType dtype, std::uint64_t seed = 1) const {
    return Tensor::integers(shape, dtype, 0, 100, seed, GetParam());
  }
  Tensor filled(const Dims& shape, DType dtype) const {
    return Tensor::full(shape, 101, dtype, GetParam());
  }
  Stream stream() const { return Stream(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Copies, testing::ValuesIn(devices()), device_name);

TEST_P(Copies, EveryWidthAndRank) {
  for (const DType dtype : {DType::u8, DType::f8e4m3, DType::bf16, DType::i32, DType::f64}) {
    SCOPED_TRACE(name(dtype));
    for (const Dims& shape : {Dims{77}, Dims{37, 67}, Dims{2, 33, 65}}) {
      const Tensor from = integers(shape, dtype), to = filled(shape, dtype);
      copy(stream(), from, to);
      EXPECT_EQ(to.to_doubles(), from.to_doubles()) << shape.str();
    }
  }
}

TEST_P(Copies, TransposeAndLeaveTheRestAlone) {
  const Tensor from = integers({35, 70}, DType::f16), wide = filled({70, 64}, DType::f16);
  copy(stream(), from.transpose(0, 1), wide.slice(1, 0, 35));
  EXPECT_EQ(wide.slice(1, 0, 35).to_doubles(), from.transpose(0, 1).to_doubles());
  for (const double x : wide.slice(1, 35, 64).to_doubles()) ASSERT_EQ(x, 101);
}

/// Two in a launch, and one that is left.
TEST_P(Copies, Several) {
  const std::vector<TensorCopy> copies{
      {integers({37, 67}, DType::f32, 1), filled({37, 67}, DType::f32)},
      {integers({5, 200}, DType::f32, 2), filled({5, 200}, DType::f32)},
      {integers({64, 3}, DType::f32, 3), filled({64, 3}, DType::f32)}};
  copy(stream(), copies);
  for (const TensorCopy& c : copies) EXPECT_EQ(c.to.to_doubles(), c.from.to_doubles());
}

TEST_P(Copies, RejectTensorsThatDoNotFit) {
  const Tensor a = integers({4, 8}, DType::f32);
  EXPECT_THROW(copy(stream(), a, filled({8, 4}, DType::f32)), CompileError);
  EXPECT_THROW(copy(stream(), a, filled({4, 8}, DType::i32)), CompileError);
  const std::vector<TensorCopy> mixed{{a, filled({4, 8}, DType::f32)},
                                      {integers({4}, DType::u8), filled({4}, DType::u8)}};
  EXPECT_THROW(copy(stream(), mixed), CompileError);
}

/// Runs one plan.
struct PlanInTest {
  Stream stream;
  Tensor tensor{};
  bool is_repacked = false;

  template <class Build>
  void run(std::initializer_list<Tensor> tensors, const Build& build) {
    const CallPlans plans;
    std::vector<tegula::detail::HostArg> args;
    for (const Tensor& t : tensors)
      args.push_back({tegula::detail::ParamKind::View, t.dtype(), &t});
    plans.call(stream, args, {}, build);
  }
};

TEST_P(Copies, OperandsAsTmaTakesThem) {
  const Tensor even = integers({40, 64}, DType::bf16), odd = integers({40, 67}, DType::bf16),
               bytes = integers({64, 48}, DType::u8);
  EXPECT_TRUE(is_tma_compatible(even) && is_tma_compatible(even.transpose(0, 1)) &&
              !is_tma_compatible(odd));
  EXPECT_FALSE((RepackedOperand{odd, -1, LayoutRequirement::any}.needs_repack()));
  EXPECT_FALSE((RepackedOperand{bytes, -2, LayoutRequirement::tma_compatible}.needs_repack()));
  EXPECT_TRUE((RepackedOperand{bytes, -2, LayoutRequirement::contiguous_dim}.needs_repack()));

  // The operand that a kernel would read, copied for the test.
  using enum LayoutRequirement;
  const auto read = [&](const Tensor& operand, int dim, LayoutRequirement wanted) {
    const Tensor to = filled(operand.shape(), operand.dtype());
    PlanInTest plans{stream()};
    plans.run({operand, to}, [&](PlanBuilder& plan) {
      const RepackedOperand as{plan.tensor(plan.argument(0)), dim, wanted};
      const PlanSlot made = repack(plan, {{plan.argument(0), as}})[0];
      plans.tensor = plan.tensor(made), plans.is_repacked = made != plan.argument(0);
      const SlotCopy copy[] = {{made, plan.argument(1)}};
      plan_copies(plan, copy);
    });
    EXPECT_EQ(to.to_doubles(), operand.to_doubles());
    return plans;
  };
  EXPECT_FALSE(read(even, -2, tma_compatible).is_repacked);
  EXPECT_FALSE(read(odd, -1, any).is_repacked);
  const auto packed = read(odd, -1, tma_compatible);
  EXPECT_TRUE(packed.is_repacked && is_tma_compatible(packed.tensor));
  EXPECT_EQ(packed.tensor.stride(0), 128);
  const auto turned = read(bytes, -2, contiguous_dim);
  EXPECT_TRUE(turned.is_repacked && is_tma_compatible(turned.tensor));
  EXPECT_EQ(turned.tensor.stride(0), 1);
}

}  // namespace
}  // namespace tegula::test::copy_test
