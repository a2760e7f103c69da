// Results that go through shared memory and from there by TMA (plan.tma_store), on every available
// device. Operands are small integers, so that sums are exact; what is not stored keeps the number
// that C was filled with.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>

#include "support/env.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::tma_store_test {
using namespace kernels;
namespace {

using test::expect_equal;
using test::product;

constexpr double kUnset = -77;
constexpr const char* kStored = "applied: stored by TMA";

struct Tiles {
  int bm, bn, bk;
};
using Shape = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

/// One tile, several a program, ragged edges, columns that no swizzle divides.
const Shape kShapes[] = {{128, 256, 64}, {264, 520, 136}, {648, 264, 72}, {8, 8, 328}};

/// The eight-line kernel.
template <class T, class O>
auto matmul_of(Tiles t) {
  return kernel("by_tma", [=](In<T, 2> A, In<T, 2> B, Out<O, 2> C) {
    for (auto [m, n] : grid(C, t.bm, t.bn, group_m(8))) {
      auto acc = zeros<f32>(t.bm, t.bn);
      for (auto k : steps(A.cols(), t.bk)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

class TmaStore : public test::OnDevice {
 protected:
  void SetUp() override { plan("tma_store=1"); }
  void plan(const std::string& fields) {
    scope_.reset();
    Env changed = env();
    changed.plan = fields;
    scope_ = std::make_unique<EnvOverride>(changed);
  }
  Tensor unset(const Dims& shape, DType dtype) const {
    return Tensor::full(shape, kUnset, dtype, GetParam());
  }
  /// Nothing is compiled for the cpu.
  void expect_said(const std::string& said, const char* what) const {
    if (GetParam().kind == DeviceKind::cpu) return;
    if (GetParam().kind == DeviceKind::cuda && said.find("wgmma=1") == std::string::npos) return;
    EXPECT_NE(said.find(what), std::string::npos) << said;
  }
  template <class T, class O>
  void check_shapes(Tiles t) {
    const auto kernel = matmul_of<T, O>(t);
    for (const auto& [m, n, k] : kShapes) {
      SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k);
      const Tensor A = integers({m, k}, dtype_of<T>, 1), B = integers({k, n}, dtype_of<T>, 2),
                   C = unset({m, n}, dtype_of<O>);
      kernel(stream(), A, B, C);
      expect_equal(C, product(A, B));
    }
    expect_said(kernel.explain(), kStored);
  }
  /// A part of a larger tensor, and that nothing is written next to it.
  void check_part(std::int64_t stride, std::int64_t first, const char* said, std::int64_t n = 136) {
    const auto kernel = matmul_of<bf16, bf16>({128, 128, 64});
    const std::int64_t m = 200, k = 64;
    const Tensor A = integers({m, k}, DType::bf16, 1),
                 B = integers({k, (n + 7) / 8 * 8}, DType::bf16, 2).slice(1, 0, n),
                 whole = unset({m + 1, stride}, DType::bf16);
    kernel(stream(), A, B, whole.slice(0, 0, m).slice(1, first, first + n));
    const std::vector<double> sums = product(A, B);
    std::vector<double> want(static_cast<std::size_t>((m + 1) * stride), kUnset);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        want[static_cast<std::size_t>(i * stride + first + j)] =
            sums[static_cast<std::size_t>(i * n + j)];
    expect_equal(whole, want);
    expect_said(kernel.explain(), said);
  }

 private:
  std::unique_ptr<EnvOverride> scope_;
};
INSTANTIATE_TEST_SUITE_P(Devices, TmaStore, testing::ValuesIn(test::devices()), test::device_name);

TEST_P(TmaStore, Square) {
  check_shapes<bf16, bf16>({128, 128, 64});
  check_shapes<f16, f16>({128, 128, 64});
}
TEST_P(TmaStore, Wide) { check_shapes<bf16, bf16>({128, 256, 64}); }
/// In shared memory as vectors of two.
TEST_P(TmaStore, Of32Bits) { check_shapes<bf16, f32>({128, 128, 64}); }
/// Three and four warpgroups.
TEST_P(TmaStore, Tall) {
  check_shapes<bf16, bf16>({192, 96, 64});
  check_shapes<bf16, bf16>({256, 64, 64});
}

/// Blocks of one, two and many pieces, buffers that go round evenly and not, one buffer, and the
/// other fields that a store depends on.
TEST_P(TmaStore, OtherPlans) {
  for (const char* fields :
       {"epilogue_tile_n=64", "epilogue_tile_n=16", "epilogue_tile_n=48",
        "epilogue_tile_n=64 stages=5", "epilogue_tile_n=0", "epilogue_tile_n=0 stages=5",
        "producer_warps=1 consumer_registers=0", "producer_warps=0 consumer_registers=0"}) {
    SCOPED_TRACE(fields);
    plan("tma_store=1 " + std::string(fields));
    const auto kernel = matmul_of<bf16, bf16>({128, 192, 64});
    const Tensor A = integers({392, 72}, DType::bf16, 1), B = integers({72, 744}, DType::bf16, 2),
                 C = unset({392, 744}, DType::bf16);
    kernel(stream(), A, B, C);
    expect_equal(C, product(A, B));
    const bool fits = std::string(fields) != "epilogue_tile_n=0 stages=5";
    expect_said(kernel.explain(), fits ? kStored : "the rings leave no shared memory");
  }
}

TEST_P(TmaStore, Pingpong) {
  for (const MatmulConfig c : {MatmulConfig{.bm = 128, .bn = 128, .bk = 64, .pingpong = true},
                               {.bm = 64, .bn = 256, .bk = 64, .pingpong = true},
                               {.bm = 128, .bn = 128, .bk = 64, .multicast = Multicast::b}})
    for (const auto& [m, n, k] : kShapes) {
      SCOPED_TRACE(testing::Message() << c.str() << " " << m << "x" << n << "x" << k);
      const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2, true),
                   C = unset({m, n}, DType::bf16);
      matmul(stream(), A, B, C, c);
      expect_equal(C, product(A, B));
    }
}

TEST_P(TmaStore, Batches) {
  const std::int64_t m = 136, n = 200, k = 72;
  const Tensor A = integers({3, m, k}, DType::bf16, 1), B = integers({3, k, n}, DType::bf16, 2),
               C = unset({3, m, n}, DType::bf16);
  matmul(stream(), A, B, C, {.bm = 128, .bn = 128, .bk = 64});
  expect_equal(C, product(A, B));
}

TEST_P(TmaStore, Parts) {
  check_part(136, 0, kStored);
  check_part(160, 16, kStored);
  check_part(144, 8, kStored);
  // Strides or a beginning of 8 bytes and less.
  check_part(140, 0, "no stores by TMA: TMA supports none of the results");
  check_part(137, 0, "no stores by TMA: TMA supports none of the results");
  check_part(144, 4, "no stores by TMA: TMA supports none of the results");
  // Rows that end within what TMA writes at once.
  check_part(144, 0, "no stores by TMA: TMA supports none of the results", 132);
}

/// Nothing is stored where an operand has no row or column: the tensor map ends there.
TEST_P(TmaStore, OperandsEndEarlier) {
  const auto biased =
      kernel("biased", [](In<bf16, 2> A, In<bf16, 2> B, In<f32, 1> bias, Out<bf16, 2> C) {
        C.partial();
        for (auto [m, n] : grid(C, 128, 128)) {
          auto acc = zeros<f32>(128, 128);
          for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
          C(m, n) = acc + expand(bias(n), 0);
        }
      });
  const std::int64_t m = 264, n = 392;
  for (const auto& [rows, columns, biases] :
       {Shape{264, 392, 392}, {150, 392, 392}, {264, 136, 392}, {264, 392, 104}, {264, 392, 101}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows, " << columns << " columns, " << biases);
    const Tensor A = integers({rows, 72}, DType::bf16, 1),
                 B = integers({72, columns}, DType::bf16, 2),
                 bias = integers({biases}, DType::f32, 3), C = unset({m, n}, DType::bf16);
    biased(stream(), A, B, bias, C);
    const std::vector<double> sums = product(A, B), added = bias.to_doubles();
    std::vector<double> want(static_cast<std::size_t>(m * n), kUnset);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < std::min(columns, biases); ++j)
        want[static_cast<std::size_t>(i * n + j)] =
            sums[static_cast<std::size_t>(i * columns + j)] + added[static_cast<std::size_t>(j)];
    expect_equal(C, want);
    expect_said(biased.explain(), biases == 101 ? "no stores by TMA" : kStored);
  }
}

/// Epilogue operands, with two consumer warpgroups and with one.
TEST_P(TmaStore, Epilogue) {
  const auto added = fused_matmul<bf16, bf16>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> before) {
        return acc + expand(cast<f32>(bias(n)), 0) + cast<f32>(before(m, n));
      });
  for (const bool in_turn : {false, true})
    for (const auto& [m, n, k] : kShapes) {
      SCOPED_TRACE(testing::Message() << m << "x" << n << "x" << k << " in turn " << in_turn);
      const MatmulConfig config{.bm = 128, .bn = 128, .bk = 64, .pingpong = in_turn};
      const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                   bias = integers({n}, DType::bf16, 3), R = integers({m, n}, DType::bf16, 4),
                   C = unset({m, n}, DType::bf16);
      added.run(config, stream(), A, B, C, bias, R);
      std::vector<double> want = product(A, B);
      const auto b = bias.to_doubles(), before = R.to_doubles();
      for (std::size_t i = 0; i < want.size(); ++i)
        want[i] += b[i % static_cast<std::size_t>(n)] + before[i];
      expect_equal(C, want);
      expect_said(added.explain(config), kStored);
    }
}

/// A kernel that reads what it stores, or signals other programs that it is stored.
TEST_P(TmaStore, NotTilesThatAreReadAgain) {
  const auto sums = kernel("sums", [](In<bf16, 2> A, In<bf16, 2> B, InOut<f32, 2> C) {
    for (auto [m, n] : grid(C, 128, 128)) {
      auto acc = zeros<f32>(128, 128);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc + C(m, n);
    }
  });
  const Tensor A = integers({200, 72}, DType::bf16, 1), B = integers({72, 136}, DType::bf16, 2),
               C = unset({200, 136}, DType::f32);
  sums(stream(), A, B, C);
  std::vector<double> want = product(A, B);
  for (double& x : want) x += kUnset;
  expect_equal(C, want);
  expect_said(sums.explain(), "no stores by TMA: TMA supports none of the results");

  const Tensor D = unset({200, 136}, DType::bf16);
  matmul(stream(), A, B, D, {.bm = 64, .bn = 64, .bk = 64, .split = SplitK::stream, .parts = 3});
  expect_equal(D, product(A, B));
}

}  // namespace
}  // namespace tegula::tma_store_test
