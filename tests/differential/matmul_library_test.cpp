// matmul with its types, layouts, batches, configurations and epilogues, on every device that is
// here, against host arithmetic. Operands are small integers, so that sums are exact.
#include <gtest/gtest.h>

#include <cmath>

#include "support/env.h"
#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::matmul_library_test {
using namespace kernels;
namespace {

using test::expect_equal;
using test::product;

class MatmulLibrary : public test::OnDevice {};
INSTANTIATE_TEST_SUITE_P(Devices, MatmulLibrary, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(MatmulLibrary, EveryTypeAndLayout) {
  using enum DType;
  struct Types {
    DType operands, result;
  };
  const std::int64_t m = 72, n = 80, k = 144;
  for (const Types t : {Types{bf16, bf16},
                        {bf16, f32},
                        {f16, f16},
                        {f16, f32},
                        {f32, f32},
                        {f8e4m3, bf16},
                        {f8e4m3, f16},
                        {f8e5m2, f32},
                        {i8, i32},
                        {i8, f32},
                        {u8, i32}})
    for (const bool a_transposed : {false, true})
      for (const bool b_transposed : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << name(t.operands) << " to " << name(t.result) << (a_transposed ? " T" : " N")
                     << (b_transposed ? "T" : "N"));
        const Tensor A = integers({m, k}, t.operands, 1, a_transposed),
                     B = integers({k, n}, t.operands, 2, b_transposed), C = empty({m, n}, t.result);
        matmul(A, B, C);
        expect_equal(C, product(A, B));
      }
}

TEST_P(MatmulLibrary, Options) {
  const Tensor A = integers({72, 320}, DType::f8e4m3, 1),
               B = integers({320, 72}, DType::f8e4m3, 2, true), C = empty({72, 72}, DType::f32);
  matmul(A, B, C, {.fp32_promotion = true});
  expect_equal(C, product(A, B));
  matmul(stream(), A, B, C, MatmulConfig{.bm = 16, .bn = 64, .bk = 128, .swap_ab = true},
         {.fp32_promotion = true});
  expect_equal(C, product(A, B));
  const Tensor X = integers({72, 96}, DType::f32, 1), Y = integers({96, 72}, DType::f32, 2, true),
               Z = empty({72, 72}, DType::f32);
  matmul(X, Y, Z, {.tf32 = true});
  expect_equal(Z, product(X, Y));
}

TEST_P(MatmulLibrary, Batches) {
  const Tensor A = integers({3, 40, 72}, DType::bf16, 1), B = integers({3, 72, 48}, DType::bf16, 2),
               C = empty({3, 40, 48}, DType::f32);
  matmul(A, B, C);
  expect_equal(C, product(A, B));
  // One B for all.
  const Tensor one = Tensor::borrow(B.data(), {3, 72, 48}, DType::bf16, GetParam(), {0, 48, 1});
  matmul(A, one, C);
  expect_equal(C, product(A, one));
}

/// Operands that TMA cannot load: odd rows, a first byte between granules, no contiguous dimension,
/// batches, and slices of k; repacked first, or read as they are stored.
TEST_P(MatmulLibrary, OperandsThatTmaDoesNotTake) {
  const auto check = [this](const Tensor& A, const Tensor& B, const Tensor& C) {
    const auto want = product(A, B);
    for (const bool direct : {false, true})
      for (const int bn : {64, 128}) {
        SCOPED_TRACE(testing::Message() << A.str() << direct << bn);
        matmul(stream(), A, B, C,
               {.bm = 64,
                .bn = bn,
                .bk = 64,
                .operands = direct ? OperandPath::direct : OperandPath::tma});
        expect_equal(C, want);
      }
  };
  const Tensor C = empty({70, 51}, DType::f32);
  for (const DType d : {DType::bf16, DType::i8})
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(testing::Message() << name(d) << transposed);
      check(integers({70, 33}, d, 1, transposed), integers({33, 51}, d, 2, transposed), C);
    }
  const Tensor wide = integers({70, 97}, DType::f16, 1), B = integers({48, 51}, DType::f16, 2);
  check(wide.slice(1, 1, 49), B, C);
  check(wide.slice(1, 0, 96, 2), B, C);
  check(integers({2, 19, 21}, DType::bf16, 1), integers({2, 21, 9}, DType::bf16, 2),
        empty({2, 19, 9}, DType::bf16));
  const Tensor A = integers({9, 1031}, DType::bf16, 1), W = integers({1031, 65}, DType::bf16, 2),
               Y = empty({9, 65}, DType::f32);
  const auto want = product(A, W);
  for (const MatmulConfig& c :
       {MatmulConfig{.bm = 16, .bn = 64, .split = SplitK::partials, .parts = 3, .swap_ab = true},
        {.bm = 64,
         .bn = 64,
         .split = SplitK::partials,
         .parts = 3,
         .operands = OperandPath::direct},
        {.bm = 64,
         .bn = 64,
         .split = SplitK::cluster,
         .parts = 2,
         .operands = OperandPath::direct}}) {
    SCOPED_TRACE(c.str());
    matmul(stream(), A, W, Y, c);
    expect_equal(Y, want);
  }
}

TEST_P(MatmulLibrary, Configurations) {
  const Tensor A = integers({13, 1096}, DType::bf16, 1), B = integers({1096, 152}, DType::bf16, 2),
               C = empty({13, 152}, DType::f32);
  const auto want = product(A, B);
  for (const MatmulConfig& c :
       {MatmulConfig{.bm = 64, .bn = 64, .bk = 64, .split = SplitK::partials, .parts = 3},
        {.bm = 16, .bn = 64, .bk = 64, .swap_ab = true},
        {.bm = 16, .bn = 64, .bk = 128, .split = SplitK::partials, .parts = 2, .swap_ab = true},
        {.bm = 8, .bn = 128, .bk = 64, .swap_ab = true},
        {.bm = 64, .bn = 24, .bk = 64}}) {
    SCOPED_TRACE(c.str());
    matmul(stream(), A, B, C, c);
    expect_equal(C, want);
  }
}

TEST_P(MatmulLibrary, SwappedBytes) {
  const Tensor A = integers({5, 272}, DType::f8e4m3, 1),
               B = integers({272, 136}, DType::f8e4m3, 2, true), C = empty({5, 136}, DType::bf16);
  matmul(stream(), A, B, C, MatmulConfig{.bm = 8, .bn = 64, .bk = 128, .swap_ab = true});
  expect_equal(C, product(A, B));
}

TEST_P(MatmulLibrary, EmptyAndOne) {
  for (const Dims& s :
       {Dims{0, 8, 8}, Dims{8, 0, 8}, Dims{8, 8, 0}, Dims{1, 1, 1}, Dims{1, 9, 33}}) {
    SCOPED_TRACE(s.str());
    const Tensor A = integers({s[0], s[2]}, DType::bf16, 1),
                 B = integers({s[2], s[1]}, DType::bf16, 2), C = empty({s[0], s[1]}, DType::bf16);
    matmul(A, B, C);
    expect_equal(C, product(A, B));
  }
}

/// alpha A B + beta C, a bias of columns, scales of rows and columns.
TEST_P(MatmulLibrary, Epilogues) {
  const auto fused =
      fused_matmul<bf16, f32>([](Tile acc, Index m, Index n, In<bf16, 1> bias, In<f32, 1> row_scale,
                                 In<f32, 2> before, Scalar<f32> alpha) {
        return max(acc * expand(row_scale(m), 1) * alpha + expand(cast<f32>(bias(n)), 0), 0.0f) +
               before(m, n);
      });
  const std::int64_t m = 136, n = 88;
  for (const int splits : {1, 2}) {
    const std::int64_t k = 1032;
    const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                 C = empty({m, n}, DType::f32), bias = integers({n}, DType::bf16, 3),
                 scale = integers({m}, DType::f32, 4), before = integers({m, n}, DType::f32, 5);
    const MatmulConfig config{.bm = 64,
                              .bn = 64,
                              .bk = 64,
                              .split = splits > 1 ? SplitK::partials : SplitK::none,
                              .parts = splits};
    fused.run(config, stream(), A, B, C, bias, scale, before, 0.5f);
    auto want = product(A, B);
    const auto b = bias.to_doubles(), s = scale.to_doubles(), r = before.to_doubles();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double& v = want[static_cast<std::size_t>(i * n + j)];
        v = std::max(v * s[static_cast<std::size_t>(i)] * 0.5 + b[static_cast<std::size_t>(j)],
                     0.0) +
            r[static_cast<std::size_t>(i * n + j)];
      }
    expect_equal(C, want);
  }
}

/// A bias and a residual of any layout next to the largest tile's accumulators, at edges too.
TEST_P(MatmulLibrary, ResidualsOfEveryLayout) {
  const auto dense = fused_matmul<bf16, bf16>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<bf16, 2> residual) {
        return max(acc + expand(cast<f32>(bias(n)), 0), 0.0f) + cast<f32>(residual(m, n));
      });
  const auto expect = [&](std::int64_t m, std::int64_t n, std::int64_t k, const Tensor& residual) {
    SCOPED_TRACE(testing::Message() << m << " " << n << " " << k << " " << residual.str());
    const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                 C = empty({m, n}, DType::bf16), bias = integers({n}, DType::bf16, 3);
    dense.run({128, 256, 64}, stream(), A, B, C, bias, residual);
    auto want = product(A, B);
    const auto b = bias.to_doubles(), r = residual.to_doubles();
    for (std::size_t i = 0; i < want.size(); ++i)
      want[i] = std::max(want[i] + b[i % static_cast<std::size_t>(n)], 0.0) + r[i];
    expect_equal(C, want);
  };
  const auto halves = [&](const Dims& shape, bool transposed = false) {
    return integers(shape, DType::bf16, 4, transposed);
  };
  expect(128, 256, 64, halves({128, 256}));
  expect(136, 328, 72, halves({136, 328}));
  expect(131, 77, 64, halves({131, 77}));                     // rows at any address
  expect(136, 328, 64, halves({136, 328}, true));             // contiguous in m
  expect(136, 328, 64, halves({136, 400}).slice(1, 8, 336));  // longer rows
  expect(136, 72, 64, halves({136, 80}).slice(1, 3, 75));     // halves that begin anywhere
  expect(136, 328, 64,
         Tensor::borrow(halves({136, 328}).data(), {136, 328}, DType::bf16, GetParam(), {0, 1}));
  expect(136, 328, 0, halves({136, 328}));
  expect(0, 328, 64, halves({0, 328}));
}

/// Bytes are exchanged through shared memory, where that has room.
TEST_P(MatmulLibrary, BytesInTheEpilogue) {
  const auto sum =
      fused_matmul<bf16, f32>([](Tile acc, Index m, Index n, In<u8, 2> before, In<bool, 2> keep) {
        return where(keep(m, n), acc + cast<f32>(before(m, n)), 0.0f);
      });
  const std::int64_t m = 136, n = 336, k = 72;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               C = empty({m, n}, DType::f32), before = integers({m, n}, DType::u8, 3),
               keep = Tensor::integers({m, n}, DType::i1, 0, 2, 4, GetParam());
  sum.run({128, 256, 64}, stream(), A, B, C, before, keep);
  auto want = product(A, B);
  const auto r = before.to_doubles(), kept = keep.to_doubles();
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = kept[i] != 0 ? want[i] + r[i] : 0;
  expect_equal(C, want);
}

/// Sums that are added to a tensor, in addition to the result.
TEST_P(MatmulLibrary, AddedInPlace) {
  const auto sum = fused_matmul<bf16, f32>([](Tile acc, Index m, Index n, InOut<f32, 2> total) {
    total(m, n) = total(m, n) + acc;
    return acc;
  });
  const std::int64_t m = 136, n = 328, k = 64;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               C = empty({m, n}, DType::f32), total = integers({m, n}, DType::f32, 3);
  const auto want = product(A, B);
  auto want_total = total.to_doubles();
  for (std::size_t i = 0; i < want.size(); ++i) want_total[i] += want[i];
  sum.run({128, 256, 64}, stream(), A, B, C, total);
  expect_equal(C, want);
  expect_equal(total, want_total);
}

/// Results that are added to C, by each way to split k.
TEST_P(MatmulLibrary, AddedToResults) {
  const auto add = fused_matmul<bf16, kernels::detail::AddedTo<f32>>(
      [](Tile acc, Index m, Index, In<f32, 1> factors) { return acc * expand(factors(m), 1); });
  const std::int64_t m = 136, n = 328, k = 256;
  const Tensor A = integers({k, m}, DType::bf16, 1).transpose(0, 1),
               B = integers({k, n}, DType::bf16, 2),
               factors = Tensor::full({m}, 2, DType::f32, GetParam());
  const auto of_product = product(A, B);
  for (const MatmulConfig& c :
       {MatmulConfig{.bm = 128, .bn = 256},
        {.bm = 64, .bn = 256, .pingpong = true},
        {.bm = 128, .bn = 128, .split = SplitK::partials, .parts = 2},
        {.bm = 128, .bn = 128, .split = SplitK::stream, .parts = 3},
        {.bm = 16, .bn = 128, .split = SplitK::cluster, .parts = 2, .swap_ab = true}}) {
    SCOPED_TRACE(c.str());
    const Tensor C = integers({m, n}, DType::f32, 3);
    auto want = C.to_doubles();
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += 2 * of_product[i];
    add.run(c, stream(), A, B, C, factors);
    expect_equal(C, want);
  }
}

/// A second result, and the largest magnitude of each tile, in one pass.
TEST_P(MatmulLibrary, ScaledResults) {
  const auto both = fused_matmul<bf16, f32>(
      [](Tile acc, Index m, Index n, Out<bf16, 2> copy, Out<f32, 2> largest) {
        copy(m, n) = acc;
        largest(m.first() / static_cast<int>(m.block()), n.first() / static_cast<int>(n.block())) =
            max(abs(fill_absent(acc, 0)));
        return acc;
      });
  const std::int64_t m = 136, n = 88, k = 64;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               C = empty({m, n}, DType::f32), copy = empty({m, n}, DType::bf16),
               largest = empty({3, 2}, DType::f32);
  both.run({64, 64, 64}, stream(), A, B, C, copy, largest);
  const auto want = product(A, B);
  expect_equal(C, want);
  expect_equal(copy, want);
  std::vector<double> most(6);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double& v = most[static_cast<std::size_t>(i / 64 * 2 + j / 64)];
      v = std::max(v, std::abs(want[static_cast<std::size_t>(i * n + j)]));
    }
  expect_equal(largest, most);
}

/// An epilogue that receives the batch index: a factor and a matrix for each entry.
TEST_P(MatmulLibrary, EpiloguesOfBatches) {
  const auto scaled = fused_matmul<bf16, f32>(
      [](Tile acc, Index b, Index m, Index n, In<f32, 1> factors, In<bf16, 3> residual) {
        return acc * factors(b) + cast<f32>(residual(b, m, n));
      });
  const std::int64_t batch = 3, m = 40, n = 48, k = 264;
  const Tensor A = integers({batch, m, k}, DType::bf16, 1),
               B = integers({batch, k, n}, DType::bf16, 2),
               residual = integers({batch, m, n}, DType::bf16, 3);
  const Tensor factors = Tensor::iota({batch}, DType::f32, GetParam());  // 0, 1, 2
  auto want = product(A, B);
  const auto added = residual.to_doubles();
  for (std::size_t i = 0; i < want.size(); ++i)
    want[i] = want[i] * static_cast<double>(i / (m * n)) + added[i];
  const Tensor chosen = empty({batch, m, n}, DType::f32);
  scaled(stream(), A, B, chosen, factors, residual);
  expect_equal(chosen, want);
  for (const MatmulConfig& config :
       {MatmulConfig{64, 64, 64},
        {.bm = 16, .bn = 64, .bk = 64, .swap_ab = true},
        {.bm = 64, .bn = 64, .bk = 64, .split = SplitK::stream, .parts = 5}}) {
    SCOPED_TRACE(config.str());
    const Tensor C = empty({batch, m, n}, DType::f32);
    scaled.run(config, stream(), A, B, C, factors, residual);
    expect_equal(C, want);
  }
}

/// Matrices have batch entry 0, with and without split-K.
TEST_P(MatmulLibrary, EpiloguesOfBatchesOnMatrices) {
  const auto shifted = fused_matmul<bf16, f32>(
      [](Tile acc, Index b, Index m, Index n, In<f32, 1> terms, In<bf16, 2> residual) {
        return acc + terms(b) + cast<f32>(residual(m, n));
      });
  const Tensor A = integers({40, 264}, DType::bf16, 1), B = integers({264, 72}, DType::bf16, 2),
               residual = integers({40, 72}, DType::bf16, 3),
               terms = Tensor::full({2}, 5, DType::f32, GetParam());
  auto want = product(A, B);
  const auto added = residual.to_doubles();
  for (std::size_t i = 0; i < want.size(); ++i) want[i] += 5 + added[i];
  for (const MatmulConfig& config :
       {MatmulConfig{64, 64, 64},
        {.bm = 64, .bn = 64, .bk = 64, .split = SplitK::partials, .parts = 2},
        {.bm = 64, .bn = 64, .bk = 64, .split = SplitK::cluster, .parts = 2},
        {.bm = 64, .bn = 64, .bk = 64, .split = SplitK::stream, .parts = 3}}) {
    SCOPED_TRACE(config.str());
    const Tensor C = empty({40, 72}, DType::f32);
    shifted.run(config, stream(), A, B, C, terms, residual);
    expect_equal(C, want);
  }
}

TEST_P(MatmulLibrary, Gated) {
  const auto gated = gated_matmul<bf16, f32>(
      [](Tile gate, Tile up, Index, Index) { return max(gate, 0.0f) * up; });
  const std::int64_t m = 72, n = 136, k = 264;
  // Both halves are in one tensor, as models store them.
  const Tensor A = integers({m, k}, DType::bf16, 1), W = integers({k, 2 * n}, DType::bf16, 2),
               C = empty({m, n}, DType::f32);
  const Tensor G = W.slice(1, 0, n), U = W.slice(1, n, 2 * n);
  gated(stream(), A, G, U, C);
  auto want = product(A, G);
  const auto up = product(A, U);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = std::max(want[i], 0.0) * up[i];
  expect_equal(C, want);
}

/// Both halves of every entry of a batch, with a factor for each entry.
TEST_P(MatmulLibrary, GatedBatches) {
  const auto gated =
      gated_matmul<bf16, f32>([](Tile gate, Tile up, Index b, Index, Index, In<f32, 1> factors) {
        return max(gate, 0.0f) * up * factors(b);
      });
  const std::int64_t batch = 3, m = 40, n = 72, k = 136;
  const Tensor A = integers({batch, m, k}, DType::bf16, 1),
               W = integers({batch, k, 2 * n}, DType::bf16, 2),
               C = empty({batch, m, n}, DType::f32),
               factors = Tensor::iota({batch}, DType::f32, GetParam());
  const Tensor G = W.slice(2, 0, n), U = W.slice(2, n, 2 * n);
  gated(stream(), A, G, U, C, factors);
  auto want = product(A, G);
  const auto up = product(A, U);
  for (std::size_t i = 0; i < want.size(); ++i)
    want[i] = std::max(want[i], 0.0) * up[i] * static_cast<double>(i / (m * n));
  expect_equal(C, want);
  // The batch entry of matrices is 0.
  const Tensor first = Tensor::full({1}, 3, DType::f32, GetParam()), D = empty({m, n}, DType::f32);
  gated(stream(), A.select(0, 1), G.select(0, 1), U.select(0, 1), D, first);
  const auto gate_one = product(A.select(0, 1), G.select(0, 1)),
             up_one = product(A.select(0, 1), U.select(0, 1));
  std::vector<double> of_one;
  for (std::size_t i = 0; i < gate_one.size(); ++i)
    of_one.push_back(std::max(gate_one[i], 0.0) * up_one[i] * 3);
  expect_equal(D, of_one);
}

/// tf32, whose last bits are cut off before the MMA, and accumulators of 8-bit floats in f32.
TEST_P(MatmulLibrary, GatedOptions) {
  const auto sum_of_both = [](Tile gate, Tile up, Index, Index) { return gate + up; };
  const auto check = [&](const auto& gated, DType type, std::string_view sign) {
    const Tensor A = integers({72, 160}, type, 1), G = integers({48, 160}, type, 2).transpose(0, 1),
                 U = integers({48, 160}, type, 3).transpose(0, 1), C = empty({72, 48}, DType::f32);
    gated(stream(), A, G, U, C);
    auto want = product(A, G);
    const auto up = product(A, U);
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += up[i];
    expect_equal(C, want);
    if (GetParam().kind == DeviceKind::cpu) return;  // nothing is compiled
    EXPECT_NE(gated.explain().find(sign), std::string::npos) << gated.explain();
  };
  check(gated_matmul<f32, f32>(sum_of_both, {.tf32 = true}), DType::f32, "dot by wgmma");
  check(gated_matmul<f32, f32>(sum_of_both), DType::f32, "dot by FMA");
  check(gated_matmul<f8e4m3, f32>(sum_of_both, {.fp32_promotion = true}), DType::f8e4m3,
        "overlapped=0");
}

TEST_P(MatmulLibrary, RejectsOperandsThatDoNotFit) {
  const Tensor A = integers({8, 16}, DType::bf16, 1), B = integers({8, 16}, DType::bf16, 2),
               C = empty({8, 16}, DType::bf16), I = integers({16, 16}, DType::i8, 2);
  const auto message = [](const auto& call) {
    try {
      call();
    } catch (const CompileError& e) {
      return std::string(e.what());
    }
    return std::string("nothing was thrown");
  };
  EXPECT_NE(message([&] { matmul(A, B, C); }).find("shapes must be [m, k], [k, n] and [m, n]"),
            std::string::npos);
  EXPECT_NE(message([&] { matmul(A, I, C); }).find("operands of bf16 and i8 with a result of bf16"),
            std::string::npos);
}

}  // namespace
}  // namespace tegula::matmul_library_test
