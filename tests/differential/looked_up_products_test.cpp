// Matmuls whose rows are selected by index tiles that the loop computes: prefetched where possible,
// and correct where not. Exact on small integers.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::looked_up_products_test {
namespace {

constexpr std::int64_t kRows = 40, kColumns = 64, kPage = 8;

/// Positions in a list of `n` rows, some repeated, out of bounds or -1.
std::vector<i32> places(std::int64_t n) {
  std::vector<i32> all;
  for (i32 i = 0; i < n; ++i) all.push_back(i % 19 == 4 ? -1 : i % 23 == 7 ? 100 + i : i * 7 % 40);
  return all;
}

class LookedUpProducts : public test::OnDevice {
 protected:
  /// Expects C = A B[place], where place(j) is the row of B for column j of A.
  template <class Kernel>
  void expect_product(const Kernel& product, const Tensor& list, bool is_ahead,
                      const std::function<i32(std::int64_t)>& place) const {
    const Tensor B = integers({kRows, kColumns}, DType::bf16, 2);
    for (const std::int64_t depth : {0, 64, 200, 328}) {
      SCOPED_TRACE(depth);
      const Tensor A = integers({130, depth}, DType::bf16, 1),
                   C = empty({130, kColumns}, DType::f32);
      product(stream(), A, B, list, C);
      const auto a = A.to_doubles(), b = B.to_doubles();
      std::vector<double> c(130 * kColumns);
      for (std::int64_t i = 0; i < 130; ++i)
        for (std::int64_t k = 0; k < depth; ++k)
          for (std::int64_t j = 0; j < kColumns; ++j)
            if (const i32 row = place(k); row >= 0 && row < kRows)
              c[static_cast<std::size_t>(i * kColumns + j)] +=
                  a[static_cast<std::size_t>(i * depth + k)] *
                  b[static_cast<std::size_t>(row * kColumns + j)];
      test::expect_equal(C, c);
    }
    if (GetParam().kind == DeviceKind::cpu) return;
    const std::string text = product.explain();
    EXPECT_EQ(text.find("not pipelined: ") == std::string::npos, is_ahead) << text;
    EXPECT_EQ(text.find("b=gathered") != std::string::npos, is_ahead) << text;
  }

  /// Returns a kernel whose rows `rows(list, k)` computes in each iteration.
  template <class List, class Rows>
  static auto product_of(const Rows& rows) {
    return kernel("looked_up", [rows](In<bf16, 2> A, In<bf16, 2> B, List list, Out<f32, 2> C) {
      for (auto [m, n] : grid(C, 64, 64)) {
        Tile sum = zeros<f32>(64, 64);
        for (auto k : steps(A.cols(), 64)) sum = dot(A(m, k), B(rows(list, k), n), sum);
        C(m, n) = sum;
      }
    });
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, LookedUpProducts, testing::ValuesIn(test::devices()),
                         test::device_name);

using List = In<i32, 1>;

TEST_P(LookedUpProducts, ByAListAndByPages) {
  const auto list = places(330);
  const auto at = [&](std::int64_t k) { return list[static_cast<std::size_t>(k)]; };
  expect_product(product_of<List>([](const List& l, const Index& k) { return l(k); }),
                 Tensor::from(list, GetParam()), true, at);
  const auto pages = places(42);
  const auto page_of = [&](std::int64_t k) {
    const i32 page = pages[static_cast<std::size_t>(k / kPage)] % 6;
    return page < 0 ? -1 : static_cast<i32>(page * kPage + k % kPage);
  };
  expect_product(product_of<List>([](const List& l, const Index& k) {
                   const Tile row = k.indices(), page = l(row / kPage);
                   return where(page < 0, -1, page % 6 * kPage + row % kPage);
                 }),
                 Tensor::from(pages, GetParam()), true, page_of);
}

/// Rows that depend on a number of the previous iteration, and a list that the kernel may write.
TEST_P(LookedUpProducts, OperandsThatCannotBeComputedAhead) {
  const auto list = places(330);
  const auto at = [&](std::int64_t k) { return list[static_cast<std::size_t>(k)]; };
  expect_product(
      product_of<InOut<i32, 1>>([](const InOut<i32, 1>& l, const Index& k) { return l(k); }),
      Tensor::from(list, GetParam()), false, at);
  const auto counted =
      kernel("counted", [](In<bf16, 2> A, In<bf16, 2> B, List list, Out<f32, 2> C) {
        for (auto [m, n] : grid(C, 64, 64)) {
          Tile sum = zeros<f32>(64, 64), found = full<i32>(0);
          for (auto k : steps(A.cols(), 64)) {
            const Tile rows = list(k) + found;
            sum = dot(A(m, k), B(rows, n), sum);
            found = min(found + max(fill_absent(list(k), 0)), 1);
          }
          C(m, n) = sum;
        }
      });
  expect_product(counted, Tensor::from(list, GetParam()), false,
                 [&](std::int64_t k) { return static_cast<i32>(at(k) + (k >= 64 ? 1 : 0)); });
}

/// All operands of the loop are gathered, and one is loaded once before it.
TEST_P(LookedUpProducts, WithAStationaryOperand) {
  const auto scores =
      kernel("looked_up_twice", [](In<bf16, 2> Q, In<bf16, 2> B, List list, Out<f32, 2> C) {
        const Index all_columns = slice(0, kColumns);
        for (auto m : grid(rows(C), 64)) {
          const Tile q = Q(m, all_columns);
          Tile sum = zeros<f32>(64, kColumns);
          for (auto k : steps(list.dim(0), 64)) {
            const Tile keys = fill_absent(B(list(k), all_columns), 0),
                       values = fill_absent(B(list(k), all_columns), 0);
            sum = dot(cast<bf16>(dot(q, keys.T())), values, sum);
          }
          C(m, all_columns) = sum;
        }
      });
  const Tensor Q = Tensor::integers({70, kColumns}, DType::bf16, -1, 2, 1, GetParam()),
               B = Tensor::integers({kRows, kColumns}, DType::bf16, -1, 2, 2, GetParam()),
               C = empty({70, kColumns}, DType::f32);
  const auto q = Q.to_doubles(), b = B.to_doubles();
  for (const std::int64_t count : {0, 5, 64, 300}) {
    const auto list = places(count);
    scores(stream(), Q, B, Tensor::from(list, GetParam()), C);
    std::vector<double> c(70 * kColumns);
    for (std::size_t i = 0; i < 70; ++i)
      for (const i32 row : list) {
        if (row < 0 || row >= kRows) continue;
        const std::size_t at = static_cast<std::size_t>(row) * kColumns;
        double s = 0;
        for (std::size_t d = 0; d < kColumns; ++d) s += q[i * kColumns + d] * b[at + d];
        for (std::size_t d = 0; d < kColumns; ++d) c[i * kColumns + d] += s * b[at + d];
      }
    test::expect_equal(C, c);
  }
}

}  // namespace
}  // namespace tegula::looked_up_products_test
