// Stream-K matmuls (SplitK::stream) on every available device, against host
// arithmetic: tiles in one part, in two, in as many as there are CTAs.
#include <gtest/gtest.h>

#include <algorithm>

#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::stream_k_test {
using namespace kernels;
namespace {

using test::expect_equal;
using test::product;

class StreamKMatmul : public test::OnDevice {
 protected:
  /// C before a call, filled with a value that no right result has.
  Tensor unset(const Dims& shape, DType dtype) const {
    return Tensor::full(shape, -77, dtype, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, StreamKMatmul, testing::ValuesIn(test::devices()),
                         test::device_name);

/// Programs that divide the steps, that do not, more than there are steps, and one.
TEST_P(StreamKMatmul, AnyNumberOfPrograms) {
  const Tensor A = integers({130, 328}, DType::bf16, 1), B = integers({328, 136}, DType::bf16, 2);
  const auto want = product(A, B);
  // 9 tiles of 6 steps.
  for (const int programs : {1, 2, 3, 4, 5, 7, 8, 9, 10, 18, 27, 54, 61}) {
    SCOPED_TRACE(programs);
    const Tensor C = unset({130, 136}, DType::f32);
    matmul(stream(), A, B, C,
           {.bm = 64, .bn = 64, .bk = 64, .split = SplitK::stream, .parts = programs});
    expect_equal(C, want);
  }
}

/// Tiles that are cut, whole waves of them, and both; rows along the instructions' columns; rings
/// that leave room for several CTAs; mma.sync and FMA.
TEST_P(StreamKMatmul, Configurations) {
  const Tensor A = integers({72, 456}, DType::bf16, 1), B = integers({456, 200}, DType::bf16, 2);
  const auto want = product(A, B);
  for (MatmulConfig c : {MatmulConfig{.bm = 128, .bn = 128, .bk = 64},
                         {.bm = 64, .bn = 64, .bk = 64, .stages = 8},
                         {.bm = 64, .bn = 24, .bk = 64},
                         {.bm = 16, .bn = 64, .bk = 64, .swap_ab = true},
                         {.bm = 32, .bn = 128, .bk = 64, .swap_ab = true, .stages = 8},
                         {.bm = 64, .bn = 64, .bk = 64, .operands = OperandPath::direct}})
    for (const int programs : {2, 3, 5, 11}) {
      c.split = SplitK::stream, c.parts = programs;
      SCOPED_TRACE(c.str());
      const Tensor C = unset({72, 200}, DType::bf16);
      matmul(stream(), A, B, C, c);
      expect_equal(C, want);
    }
}

TEST_P(StreamKMatmul, Types) {
  using enum DType;
  struct Types {
    DType operands, result;
    MatmulOptions options = {};
  };
  for (const Types& t : {Types{f16, f32},
                         {f32, f32},
                         {f32, f32, {.tf32 = true}},
                         {f8e4m3, bf16},
                         {f8e5m2, f32, {.fp32_promotion = true}},
                         {i8, i32},
                         {u8, f32}})
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(testing::Message()
                   << name(t.operands) << " to " << name(t.result) << (transposed ? " T" : " N"));
      const Tensor A = integers({70, 300}, t.operands, 1),
                   B = integers({300, 90}, t.operands, 2, transposed),
                   C = unset({70, 90}, t.result);
      matmul(stream(), A, B, C,
             {.bm = 64,
              .bn = 32,
              .bk = t.operands == f32 ? 32 : 64,
              .split = SplitK::stream,
              .parts = 4},
             t.options);
      expect_equal(C, product(A, B));
    }
}

TEST_P(StreamKMatmul, BatchesAndOperandsThatAreCopied) {
  const MatmulConfig c{.bm = 64, .bn = 32, .bk = 64, .split = SplitK::stream, .parts = 4};
  const Tensor A = integers({3, 70, 136}, DType::bf16, 1),
               B = integers({3, 136, 48}, DType::bf16, 2), C = unset({3, 70, 48}, DType::f32);
  matmul(stream(), A, B, C, c);
  expect_equal(C, product(A, B));
  const Tensor X = integers({33, 201}, DType::f16, 1), Y = integers({201, 51}, DType::f16, 2),
               Z = unset({33, 51}, DType::f16);
  matmul(stream(), X, Y, Z, c);
  expect_equal(Z, product(X, Y));
}

TEST_P(StreamKMatmul, EmptyAndOne) {
  for (const Dims& s :
       {Dims{0, 8, 8}, Dims{8, 0, 8}, Dims{8, 8, 0}, Dims{1, 1, 1}, Dims{1, 9, 33}}) {
    SCOPED_TRACE(s.str());
    const Tensor A = integers({s[0], s[2]}, DType::bf16, 1),
                 B = integers({s[2], s[1]}, DType::bf16, 2), C = unset({s[0], s[1]}, DType::bf16);
    matmul(stream(), A, B, C, {.bm = 64, .bn = 64, .bk = 64, .split = SplitK::stream, .parts = 4});
    expect_equal(C, product(A, B));
  }
}

/// An epilogue sees the whole sum once, with the indices of its tile and with what is outside of C
/// absent.
TEST_P(StreamKMatmul, Epilogues) {
  const auto fused = fused_matmul<bf16, f32>(
      [](Tile acc, Index m, Index n, In<bf16, 1> bias, In<f32, 2> residual) {
        return max(acc + expand(cast<f32>(bias(n)), 0), 0.0f) + residual(m, n);
      });
  const Tensor A = integers({90, 328}, DType::bf16, 1), B = integers({328, 136}, DType::bf16, 2),
               bias = integers({136}, DType::bf16, 3),
               residual = integers({90, 136}, DType::f32, 4);
  auto want = product(A, B);
  const auto b = bias.to_doubles(), r = residual.to_doubles();
  for (std::size_t i = 0; i < want.size(); ++i)
    want[i] = std::max(want[i] + b[i % 136], 0.0) + r[i];
  for (const MatmulConfig& c :
       {MatmulConfig{.bm = 64, .bn = 64, .bk = 64, .split = SplitK::stream, .parts = 4},
        {.bm = 128, .bn = 128, .bk = 64, .split = SplitK::stream, .parts = 5},
        {.bm = 32, .bn = 64, .bk = 64, .split = SplitK::stream, .parts = 7, .swap_ab = true}}) {
    SCOPED_TRACE(c.str());
    const Tensor C = unset({90, 136}, DType::f32);
    fused.run(c, stream(), A, B, C, bias, residual);
    expect_equal(C, want);
  }
}

/// Rounded sums are the same in every run, in any order of arrival.
TEST_P(StreamKMatmul, IsDeterministic) {
  const Tensor A = Tensor::normal({70, 700}, DType::bf16, 0, 1, 1, GetParam()),
               B = Tensor::normal({700, 90}, DType::bf16, 0, 1, 2, GetParam()),
               C = unset({70, 90}, DType::f32);
  const MatmulConfig c{.bm = 64, .bn = 64, .bk = 64, .split = SplitK::stream, .parts = 13};
  matmul(stream(), A, B, C, c);
  const auto first = C.to_doubles();
  for (int run = 0; run < 5; ++run) {
    matmul(stream(), A, B, C, c);
    ASSERT_EQ(C.to_doubles(), first) << "run " << run;
  }
}

}  // namespace
}  // namespace tegula::stream_k_test
