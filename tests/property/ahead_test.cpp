// Kernels compiled ahead of time: which calls a table serves, what it survives, and that a call by
// it is the kernel's own launch.
#include <tegula.h>

#include <gmock/gmock.h>

#include "dsl/ahead/table.h"
#include "dsl/instance.h"
#include "tegula/error.h"
#include "tegula/tegula.h"
#include "tests/unit/runtime/mock_driver.h"

namespace tegula::dsl {
namespace {

using runtime::testing::mock;

/// A class of one view.
AheadClass vector_class(std::int64_t extent, std::uint8_t align = 16, std::int64_t stride = 1) {
  const Tensor t = Tensor::borrow(reinterpret_cast<void*>(std::uintptr_t{4096} + align), {extent},
                                  DType::f32, Device::cuda(), {stride});
  const detail::ParamInfo info{ParamKind::View, DType::f32, 1};
  AheadClass out;
  out.args.push_back(classify({ParamKind::View, DType::f32, &t, 1}, info));
  return out;
}

TEST(AheadClasses, ServeWhatIsAtLeastAsRegular) {
  const AheadClass made = vector_class(64);
  EXPECT_TRUE(serves(made, vector_class(4096)));
  EXPECT_FALSE(serves(made, vector_class(4097))) << "its extent is no multiple";
  EXPECT_FALSE(serves(made, vector_class(64, 4))) << "its address is no multiple";
  EXPECT_FALSE(serves(made, vector_class(64, 16, 16))) << "its elements are not side by side";
  EXPECT_FALSE(serves(made, {})) << "another number of arguments";
  EXPECT_TRUE(serves(vector_class(3, 4, 3), vector_class(64)));

  AheadClass other = vector_class(64);
  other.constants = {2};
  EXPECT_FALSE(serves(made, other)) << "another constant";
  other = vector_class(64);
  other.is_wide = true;
  EXPECT_FALSE(serves(made, other)) << "indices that 32 bits do not hold";
  EXPECT_TRUE(serves(other, made));
  other = vector_class(64);
  other.args[0].absent = true;
  EXPECT_FALSE(serves(made, other));
}

TEST(AheadClasses, FixedExtentsAndBucketsCount) {
  AheadClass made = vector_class(64);
  made.args[0].dims[0].fixed = 64;
  EXPECT_TRUE(serves(made, vector_class(64)));
  EXPECT_FALSE(serves(made, vector_class(128)));
  made = vector_class(48);
  made.args[0].dims[0].bucket = 64;
  EXPECT_TRUE(serves(made, vector_class(64)));
  EXPECT_FALSE(serves(made, vector_class(80)));
}

const auto add_kernel = kernel("add", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
                          for (auto i : grid(z, 64)) z(i) = x(i) + y(i);
                        }).named("x[N]", "y[N]", "z[N]");

/// A table of `add` for vectors of n floats.
class AheadTables : public ::testing::Test {
 protected:
  static std::string table_for(std::initializer_list<std::int64_t> lengths) {
    AheadTable table;
    const Exportable of = exportable(add_kernel);
    for (const std::int64_t n : lengths) {
      const TensorSpec s = spec<f32>(n);
      const detail::HostArg a{ParamKind::View, DType::f32, &s.described(), 1};
      const detail::HostArg args[] = {a, a, a};
      table.add("add", of.params, *of.kernel, "sm_90a", args);
    }
    return table.encode();
  }
  void SetUp() override {
    try {
      bytes_ = table_for({4097, 4096});
    } catch (const DeviceError& e) {
      GTEST_SKIP() << e.what();  // without LLVM
    }
  }

  struct Call {
    explicit Call(std::int64_t n, std::uintptr_t at = 4096) : shape{n} {
      for (int i = 0; i < 3; ++i, at += std::uintptr_t{1} << 32) {
        tensors[i] = {
            reinterpret_cast<void*>(at), {kDLCUDA, 0}, 1, {kDLFloat, 32, 1}, shape, nullptr, 0};
        args[i] = {TEGULA_TENSOR, 0, {.tensor = &tensors[i]}};
      }
    }
    std::int64_t shape[1];
    DLTensor tensors[3]{};
    TegulaArg args[3];
  };
  std::int32_t find(const Call& c) const {
    return tegula_ahead_find(bytes_.data(), bytes_.size(), "add", c.args, 3);
  }
  std::string bytes_;
};

TEST_F(AheadTables, ServeCallsFromSpecialToGeneral) {
  EXPECT_EQ(find(Call(8192)), 0);
  EXPECT_EQ(find(Call(37)), 1);
  EXPECT_EQ(find(Call(8192, 4100)), -1);
  EXPECT_EQ(tegula_ahead_find(bytes_.data(), bytes_.size(), "sub", Call(64).args, 3), -1);
}

TEST_F(AheadTables, ACallIsOneLaunch) {
  const runtime::testing::MockDriver driver;
  Call c(8192);
  EXPECT_EQ(tegula_ahead_call(bytes_.data(), bytes_.size(), "add", c.args, 3, nullptr), TEGULA_OK)
      << tegula_last_error()->text;
  ASSERT_EQ(mock().launches.size(), 1u);
  EXPECT_EQ(mock().launches[0].config.grid_x, 8192u / 64);
  Call odd(8192, 4100);
  EXPECT_EQ(tegula_ahead_call(bytes_.data(), bytes_.size(), "add", odd.args, 3, nullptr),
            TEGULA_ARGUMENT);
  EXPECT_THAT(tegula_last_error()->text, ::testing::StartsWith("T1662"));
  Call overlapping(8192);
  overlapping.tensors[2].data = overlapping.tensors[1].data;
  EXPECT_EQ(tegula_ahead_call(bytes_.data(), bytes_.size(), "add", overlapping.args, 3, nullptr),
            TEGULA_ARGUMENT);
  EXPECT_THAT(tegula_last_error()->text, ::testing::HasSubstr("overlap"));
  for (DLTensor& t : c.tensors) t.device = {kDLCPU, 0};
  EXPECT_EQ(tegula_ahead_call(bytes_.data(), bytes_.size(), "add", c.args, 3, nullptr),
            TEGULA_ARGUMENT);
  EXPECT_EQ(mock().launches.size(), 1u);
}

TEST_F(AheadTables, DamagedBytesAreRefused) {
  for (std::size_t i = 0; i < bytes_.size(); i += i < 200 ? 1 : 97) {
    std::string changed = bytes_;
    changed[i] = static_cast<char>(changed[i] ^ 4);
    EXPECT_THROW(AheadTable{changed}, CompileError) << i;
  }
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, std::size_t{31}, bytes_.size() - 1})
    EXPECT_THROW(AheadTable{bytes_.substr(0, size)}, CompileError) << size;
  EXPECT_EQ(AheadTable(bytes_).size(), 2u);
}

}  // namespace
}  // namespace tegula::dsl
