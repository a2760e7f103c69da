// How many compiled kernels a process keeps.
#include "dsl/compiled_table.h"

#include <gtest/gtest.h>

#include "run_on_host.h"

namespace tegula::compiled_table_test {
namespace {

using dsl::compiled_by_ir;
using dsl::kMaxCompiledKernels;
using test::host;

/// A kernel whose IR holds a number: one for each.
auto plus(int number) {
  return kernel("plus", [number](In<i32, 1> x, Out<i32, 1> y) {
    for (auto i : grid(y, 4)) y(i) = x(i) + number;
  });
}
i32 called(const auto& k) {
  const Tensor x = Tensor::zeros({1}, DType::i32, test::kHost), y = x.clone();
  k(x, y);
  return y.to_vector<i32>()[0];
}

/// In an endless series of kernels that are made, called and dropped, the last called ones stay.
TEST(CompiledTable, KeepsABoundedNumberOfUnusedKernels) {
  const auto held = plus(-1);
  EXPECT_EQ(called(held), -1);
  for (int n = 0; n < static_cast<int>(kMaxCompiledKernels) + 50; ++n) {
    ASSERT_EQ(called(plus(n)), n);
    if (n % 100 == 0) {
      ASSERT_EQ(called(plus(7000)), 7000);
    }
    ASSERT_LE(compiled_by_ir().size(), kMaxCompiledKernels);
  }
  const auto is_reused = [](int n) {
    const auto k = plus(n);
    EXPECT_EQ(called(k), n);
    return k.instance().launcher.compile_history().find("reused") != std::string::npos;
  };
  EXPECT_TRUE(is_reused(static_cast<int>(kMaxCompiledKernels)));
  EXPECT_TRUE(is_reused(7000)) << "asked for now and then";
  EXPECT_TRUE(is_reused(-1)) << "its kernel object is there";
  EXPECT_FALSE(is_reused(1));
  EXPECT_TRUE(is_reused(1));
}

/// The table does not drop kernels that objects hold.
TEST(CompiledTable, KeepsAllThatAreHeld) {
  std::vector<decltype(plus(0))> all;
  const int count = static_cast<int>(kMaxCompiledKernels) + 20;
  for (int n = 0; n < count; ++n) {
    all.push_back(plus(10'000 + n));
    ASSERT_EQ(called(all.back()), 10'000 + n);
  }
  EXPECT_GE(compiled_by_ir().size(), static_cast<std::size_t>(count));
  all.clear();
  called(plus(30'000));
  EXPECT_EQ(compiled_by_ir().size(), kMaxCompiledKernels) << "of those that nobody holds any more";
}

}  // namespace
}  // namespace tegula::compiled_table_test
