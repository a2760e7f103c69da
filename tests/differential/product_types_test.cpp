// Products of every element type that tensor cores take, in every operand order, exact on small
// integers, on every available device.
#include <gtest/gtest.h>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::product_types_test {
namespace {

class MatmulTypes : public testing::TestWithParam<Device> {};
INSTANTIATE_TEST_SUITE_P(Devices, MatmulTypes, testing::ValuesIn(test::devices()),
                         test::device_name);

struct Case {
  int bm, bn, bk;
  bool a_transposed, b_transposed;
};

template <class T, class Sum>
auto product(const Case& c) {
  return kernel("product", [c](In<T, 2> A, In<T, 2> B, Out<Sum, 2> C) {
    const Tile depth = A.dim(c.a_transposed ? 0 : 1);
    for (auto [m, n] : grid(C, c.bm, c.bn)) {
      auto acc = zeros<Sum>(c.bm, c.bn);
      for (auto k : steps(depth, c.bk))
        acc = dot(c.a_transposed ? A(k, m).T() : A(m, k), c.b_transposed ? B(n, k).T() : B(k, n),
                  acc, Precision::tf32);
      C(m, n) = acc;
    }
  });
}

/// Runs one case and returns its explanation.
template <class T, class Sum>
std::string run(const Case& c, Device device) {
  const std::int64_t m = c.bm + 16, n = c.bn + 48, k = 2 * c.bk + 16;
  const auto integers = [&](Dims shape, std::uint64_t seed) {
    return Tensor::integers(shape, dtype_of<T>, std::is_unsigned_v<T> ? 0 : -3, 4, seed, device);
  };
  const Tensor A = integers(c.a_transposed ? Dims{k, m} : Dims{m, k}, 1),
               B = integers(c.b_transposed ? Dims{n, k} : Dims{k, n}, 2),
               C = Tensor::empty({m, n}, dtype_of<Sum>, device);
  const auto kernel = product<T, Sum>(c);
  kernel(A, B, C);
  const auto a = A.to_doubles(), b = B.to_doubles(), got = C.to_doubles();
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += a[static_cast<std::size_t>(c.a_transposed ? l * m + i : i * k + l)] *
               b[static_cast<std::size_t>(c.b_transposed ? j * k + l : l * n + j)];
      EXPECT_EQ(got[static_cast<std::size_t>(i * n + j)], sum) << i << ", " << j;
      if (got[static_cast<std::size_t>(i * n + j)] != sum) return kernel.explain();
    }
  return device.kind == DeviceKind::cpu ? "" : kernel.explain();
}

/// 8-bit and 32-bit operands are wgmmas only where k is contiguous; the others take mma.sync.
template <class T, class Sum>
void every_order(Device device, int bk) {
  for (const bool a_transposed : {false, true})
    for (const bool b_transposed : {false, true}) {
      SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << (a_transposed ? " T" : " N")
                                      << (b_transposed ? "T" : "N"));
      const std::string said = run<T, Sum>({64, 64, bk, a_transposed, b_transposed}, device);
      if (device.kind == DeviceKind::cpu) continue;
      const bool k_major = !a_transposed && b_transposed;
      EXPECT_EQ(said.find("dot by wgmma") != std::string::npos, sizeof(T) == 2 || k_major) << said;
    }
}

TEST_P(MatmulTypes, Bf16) { every_order<bf16, f32>(GetParam(), 64); }
TEST_P(MatmulTypes, F16) { every_order<f16, f32>(GetParam(), 64); }
TEST_P(MatmulTypes, Tf32) { every_order<f32, f32>(GetParam(), 32); }
TEST_P(MatmulTypes, F8E4M3) { every_order<f8e4m3, f32>(GetParam(), 128); }
TEST_P(MatmulTypes, F8E5M2) { every_order<f8e5m2, f32>(GetParam(), 128); }
TEST_P(MatmulTypes, I8) { every_order<i8, i32>(GetParam(), 128); }
TEST_P(MatmulTypes, U8) { every_order<u8, i32>(GetParam(), 128); }

/// Widths of wgmma that integers do not have, short and long steps, two warpgroups.
TEST_P(MatmulTypes, Tiles) {
  run<i8, i32>({64, 40, 64, false, true}, GetParam());
  run<i8, i32>({128, 96, 32, false, true}, GetParam());
  run<f8e4m3, f32>({128, 200, 256, false, true}, GetParam());
  run<f8e5m2, f32>({128, 24, 64, false, true}, GetParam());
  run<f32, f32>({128, 104, 64, false, true}, GetParam());
}

/// Every number of columns that an instruction can have, k contiguous in both operands: one tile of
/// that width, and a part of a second one. What wgmma has not, mma.sync computes.
template <class T, class Sum>
void every_width(Device device, int bk) {
  for (int bn = 8; bn <= 256; bn += 8) {
    SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << " width " << bn);
    const std::string said = run<T, Sum>({64, bn, bk, false, true}, device);
    if (testing::Test::HasFailure()) return;
    if (device.kind == DeviceKind::cpu) continue;
    const bool has_width = std::is_same_v<Sum, f32> || bn <= 32 || bn % 16 == 0;
    EXPECT_EQ(
        said.find("dot by wgmma sum=tile<64x" + std::to_string(bn) + "x") != std::string::npos,
        has_width)
        << said;
  }
}

TEST_P(MatmulTypes, EveryWidthOfBf16) { every_width<bf16, f32>(GetParam(), 32); }
TEST_P(MatmulTypes, EveryWidthOfF16) { every_width<f16, f32>(GetParam(), 16); }
TEST_P(MatmulTypes, EveryWidthOfTf32) { every_width<f32, f32>(GetParam(), 16); }
TEST_P(MatmulTypes, EveryWidthOfF8E4M3) { every_width<f8e4m3, f32>(GetParam(), 32); }
TEST_P(MatmulTypes, EveryWidthOfF8E5M2) { every_width<f8e5m2, f32>(GetParam(), 32); }
TEST_P(MatmulTypes, EveryWidthOfI8) { every_width<i8, i32>(GetParam(), 32); }
TEST_P(MatmulTypes, EveryWidthOfU8) { every_width<u8, i32>(GetParam(), 32); }

/// Weights in 8 bits, activations in 16: the first operand is computed, in registers.
TEST_P(MatmulTypes, ComputedOperand) {
  const auto mixed = kernel("mixed", [](In<i8, 2> A, In<bf16, 2> B, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, 64, 32)) {
      auto acc = zeros<f32>(64, 32);
      for (auto k : steps(A.cols(), 64)) acc = dot(cast<bf16>(A(m, k)), B(k, n), acc);
      C(m, n) = acc;
    }
  });
  const std::int64_t m = 80, n = 40, k = 272;
  const Tensor A = Tensor::integers({m, k}, DType::i8, -9, 9, 1, GetParam()),
               B = Tensor::integers({k, n}, DType::bf16, -3, 4, 2, GetParam()),
               C = Tensor::empty({m, n}, DType::f32, GetParam());
  mixed(A, B, C);
  const auto a = A.to_doubles(), b = B.to_doubles(), got = C.to_doubles();
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum += a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)];
      ASSERT_EQ(got[static_cast<std::size_t>(i * n + j)], sum) << i << ", " << j;
    }
  if (GetParam().kind != DeviceKind::cpu) {
    EXPECT_NE(mixed.explain().find("dot by wgmma"), std::string::npos) << mixed.explain();
  }
}

}  // namespace
}  // namespace tegula::product_types_test
