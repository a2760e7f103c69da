// Operands of MMAs as boxes of tensors of four and five dimensions, as many as a tensor map has,
// and of six, which TMA does not take; on every available device. A map of one dimension, which
// no operand has, is in unit_codegen_sim_tensor_ranks_test.
#include <gtest/gtest.h>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::tensor_ranks_test {
namespace {

using test::product;

class TensorRanks : public test::OnDevice {
 protected:
  /// Matmuls of the last two dimensions, one for each entry of those before.
  std::vector<double> products(const Tensor& A, const Tensor& B) const {
    const std::int64_t m = A.size(-2), k = A.size(-1), n = B.size(-1),
                       entries = A.numel() / (m * k);
    const auto as_batch = [&](const Tensor& t, std::int64_t rows, std::int64_t cols) {
      std::vector<float> values;
      for (const double v : t.to_doubles()) values.push_back(static_cast<float>(v));
      return Tensor::from(values, Device::cpu()).reshape({entries, rows, cols});
    };
    return product(as_batch(A, m, k), as_batch(B, k, n));
  }
  void expect_brought(const std::string& said, bool by_tma) const {
    std::size_t count = 0;
    for (std::size_t at = said.find("loaded by TMA"); at != std::string::npos;
         at = said.find("loaded by TMA", at + 1))
      ++count;
    EXPECT_EQ(count, by_tma ? 2U : 0U) << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, TensorRanks, testing::ValuesIn(test::devices()),
                         test::device_name);

/// Tiles that end beyond every edge: neighbours along the other dimensions must not come in.
TEST_P(TensorRanks, Four) {
  const auto kernel_of_four = kernel("four", [](In<bf16, 4> A, In<bf16, 4> B, Out<f32, 4> C) {
    for (auto [p, q, m, n] : grid(C, 1, 1, 64, 32)) {
      auto acc = zeros<f32>(64, 32);
      for (auto k : steps(A.dim(3), 32)) acc = dot(A(p, q, m, k), B(p, q, k, n), acc);
      C(p, q, m, n) = acc;
    }
  });
  const Tensor A = integers({2, 3, 72, 88}, DType::bf16, 1),
               B = integers({2, 3, 88, 40}, DType::bf16, 2), C = empty({2, 3, 72, 40}, DType::f32);
  kernel_of_four(A, B, C);
  test::expect_equal(C, products(A, B));
  if (GetParam().kind != DeviceKind::cpu) expect_brought(kernel_of_four.explain(), true);
}

auto product_of_five() {
  return kernel("five", [](In<bf16, 5> A, In<bf16, 5> B, Out<f32, 5> C) {
    for (auto [p, q, r, m, n] : grid(C, 1, 1, 1, 64, 32)) {
      auto acc = zeros<f32>(64, 32);
      for (auto k : steps(A.dim(4), 32)) acc = dot(A(p, q, r, m, k), B(p, q, r, k, n), acc);
      C(p, q, r, m, n) = acc;
    }
  });
}

TEST_P(TensorRanks, Five) {
  const auto five = product_of_five();
  const Tensor A = integers({2, 1, 3, 72, 88}, DType::bf16, 1),
               B = integers({2, 1, 3, 88, 40}, DType::bf16, 2),
               C = empty({2, 1, 3, 72, 40}, DType::f32);
  five(A, B, C);
  test::expect_equal(C, products(A, B));
  if (GetParam().kind != DeviceKind::cpu) expect_brought(five.explain(), true);
}

/// Rows that are between other dimensions, as heads do in attention, and k that is not innermost.
TEST_P(TensorRanks, FiveInAnotherOrder) {
  const auto five = product_of_five();
  const Tensor A = integers({2, 72, 2, 3, 88}, DType::bf16, 1).transpose(1, 3),
               B = integers({3, 2, 2, 40, 88}, DType::bf16, 2).transpose(0, 2).transpose(3, 4),
               a = A.transpose(1, 2), C = empty({2, 2, 3, 72, 40}, DType::f32);
  ASSERT_EQ(a.shape(), (Dims{2, 2, 3, 72, 88}));
  ASSERT_EQ(B.shape(), (Dims{2, 2, 3, 88, 40}));
  five(a, B, C);
  test::expect_equal(C, products(a, B));
  if (GetParam().kind != DeviceKind::cpu) expect_brought(five.explain(), true);
}

/// One more than a map has: loaded by the threads.
TEST_P(TensorRanks, Six) {
  const auto six = kernel("six", [](In<bf16, 6> A, In<bf16, 6> B, Out<f32, 6> C) {
    for (auto [o, p, q, r, m, n] : grid(C, 1, 1, 1, 1, 64, 32)) {
      auto acc = zeros<f32>(64, 32);
      for (auto k : steps(A.dim(5), 32)) acc = dot(A(o, p, q, r, m, k), B(o, p, q, r, k, n), acc);
      C(o, p, q, r, m, n) = acc;
    }
  });
  const Tensor A = integers({2, 1, 1, 2, 72, 88}, DType::bf16, 1),
               B = integers({2, 1, 1, 2, 88, 40}, DType::bf16, 2),
               C = empty({2, 1, 1, 2, 72, 40}, DType::f32);
  six(A, B, C);
  test::expect_equal(C, products(A, B));
  if (GetParam().kind != DeviceKind::cpu) expect_brought(six.explain(), false);
}

}  // namespace
}  // namespace tegula::tensor_ranks_test
