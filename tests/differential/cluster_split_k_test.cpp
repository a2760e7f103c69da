// Matmuls with split-K in a cluster by a field of the plan (`cluster_split_k`), on every device
// that is here. Operands are small integers, so that sums are exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tegula/kernels/fused_matmul.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::cluster_split_k_test {
namespace {

using test::expect_equal;
using test::product;

std::string splits(int n) { return "cluster_split_k=" + std::to_string(n); }

/// The eight-line kernel.
template <class T, class O>
auto matmul_of(int bm, int bn, int bk, int group = 1) {
  return kernel("eight_lines", [=](In<T, 2> A, In<T, 2> B, Out<O, 2> C) {
    for (auto [m, n] : grid(C, bm, bn, group_m(group))) {
      auto acc = zeros<Accumulator<T>>(bm, bn);
      for (auto k : steps(A.cols(), bk)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc;
    }
  });
}

class Splits : public test::OnDevice {
 protected:
  void expect_split(const std::string& said) const {
    if (GetParam().kind == DeviceKind::cpu) return;
    EXPECT_NE(said.find("applied: split-K in a cluster"), std::string::npos) << said;
  }
  /// Runs the kernel as it is and split 2, 4 and 8 times; each time it leaves the same in `result`.
  /// Both ways begin with what `reset` leaves.
  template <class K, class Reset, class... Args>
  void expect_same(const K& plain, const Tensor& result, const Reset& reset,
                   const Args&... args) const {
    reset();
    plain(stream(), args...);
    const auto want = result.to_doubles();
    for (const int n : {2, 4, 8}) {
      SCOPED_TRACE(splits(n));
      const auto split = plain.with_plan(splits(n));
      reset();
      split(stream(), args...);
      ASSERT_EQ(result.to_doubles(), want);
      expect_split(split.explain());
    }
  }
  template <class T, class O>
  void check(int bm, int bn, int bk, int n, bool b_columns = false, std::string more = "") const {
    SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << " " << bm << "x" << bn << "x" << bk
                                    << " " << splits(n) << " " << more);
    const auto kernel = matmul_of<T, O>(bm, bn, bk).with_plan(splits(n) + " " + more);
    const std::int64_t unit =
        16 / size_bytes(dtype_of<T>);  // elements of 16 bytes, the granule of TMA
    for (const auto& [rows, cols, k] :
         {std::tuple<std::int64_t, std::int64_t, std::int64_t>{bm + 8, 200, 37 * unit},
          {1, 8, unit},
          {40, 8, 0}}) {
      SCOPED_TRACE(testing::Message() << rows << "x" << cols << "x" << k);
      const Tensor A = integers({rows, k}, dtype_of<T>, 1),
                   B = integers({k, cols}, dtype_of<T>, 2, b_columns && k > 0),
                   C = empty({rows, cols}, dtype_of<O>);
      kernel(stream(), A, B, C);
      expect_equal(C, product(A, B));
    }
    expect_split(kernel.explain());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Splits, testing::ValuesIn(test::devices()), test::device_name);

TEST_P(Splits, EveryNumberOfPrograms) {
  for (const int n : {1, 2, 4, 8}) {
    if (n > 1) check<bf16, f32>(64, 64, 64, n);
    if (n > 1) check<bf16, bf16>(128, 96, 32, n);
  }
  check<bf16, bf16>(256, 128, 64, 4);
}
TEST_P(Splits, EveryType) {
  check<f16, f16>(64, 64, 64, 4);
  check<f32, f32>(64, 32, 16, 4);
  check<f8e4m3, f32>(64, 64, 128, 2, true);
  check<i8, i32>(64, 64, 128, 4, true);
  check<u8, f32>(64, 64, 128, 2, true);
}
/// Products that wgmma does not compute, and those computed as their transposes.
TEST_P(Splits, EveryWay) {
  check<bf16, f32>(64, 64, 64, 4, false, "wgmma=0 num_warps=4 warps_m=2 warps_n=2");
  check<bf16, f32>(32, 48, 32, 2, false, "swap_ab=0");
  check<bf16, f32>(64, 64, 64, 4, false, "swap_ab=1");
  check<bf16, f32>(16, 128, 64, 4);  // swapped without being asked
  check<bf16, bf16>(8, 64, 64, 4);
}

TEST_P(Splits, GroupsOfTiles) {
  const auto kernel = matmul_of<bf16, f32>(64, 64, 64, 3).with_plan("cluster_split_k=2");
  const Tensor A = integers({500, 136}, DType::bf16, 1), B = integers({136, 200}, DType::bf16, 2),
               C = empty({500, 200}, DType::f32);
  kernel(stream(), A, B, C);
  expect_equal(C, product(A, B));
  expect_split(kernel.explain());
}

/// Fewer steps than programs, none, and steps that are no whole ones.
TEST_P(Splits, AnyDepth) {
  const auto kernel = matmul_of<bf16, f32>(64, 64, 64).with_plan("cluster_split_k=8");
  for (const std::int64_t k : {0, 8, 64, 72, 448, 512, 520, 1096}) {
    SCOPED_TRACE(k);
    const Tensor A = integers({72, k}, DType::bf16, 1), B = integers({k, 72}, DType::bf16, 2),
                 C = empty({72, 72}, DType::f32);
    kernel(stream(), A, B, C);
    expect_equal(C, product(A, B));
  }
}

/// Steps that begin and end within the operands: no program goes on behind the last one.
TEST_P(Splits, SomeOfTheDepth) {
  const auto some = kernel(
      "some", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C, Scalar<i32> first, Scalar<i32> last) {
        for (auto [m, n] : grid(C, 64, 64)) {
          auto acc = zeros<f32>(64, 64);
          for (auto k : steps(Tile(first), Tile(last), 64)) acc = dot(A(m, k), B(k, n), acc);
          C(m, n) = acc;
        }
      });
  const Tensor A = integers({72, 1096}, DType::bf16, 1), B = integers({1096, 72}, DType::bf16, 2),
               C = empty({72, 72}, DType::f32);
  for (const auto& [first, last] : {std::pair{0, 200}, {72, 600}, {128, 128}, {256, 64}}) {
    SCOPED_TRACE(testing::Message() << first << " to " << last);
    expect_same(some, C, [] {}, A, B, C, first, last);
  }
}

/// A kernel that a user writes with cluster(n), and the library's: the same sums in the same order.
TEST_P(Splits, AsTheLibraryDoes) {
  for (const bool swap_ab : {true, false})
    for (const int n : {2, 4, 8}) {
      SCOPED_TRACE(testing::Message() << n << (swap_ab ? " swap_ab" : ""));
      const int bm = swap_ab ? 16 : 64, bn = swap_ab ? 64 : 80;
      const std::int64_t rows = 136, cols = 152, k = 1096;
      const Tensor A = Tensor::normal({rows, k}, DType::bf16, 0, 1, 1, GetParam()),
                   B = Tensor::normal({k, cols}, DType::bf16, 0, 1, 2, GetParam()),
                   C = empty({rows, cols}, DType::f32), want = empty({rows, cols}, DType::f32);
      matmul(stream(), A, B, want, MatmulConfig{bm, bn, 64, SplitK::cluster, n, swap_ab});
      matmul_of<bf16, f32>(bm, bn, 64, 8).with_plan(splits(n))(stream(), A, B, C);
      if (GetParam().kind == DeviceKind::cpu) continue;  // which has one program a tile
      EXPECT_EQ(C.to_doubles(), want.to_doubles());
    }
}

// ---- what meets the sums ------------------------------------------------------------------------

TEST_P(Splits, BiasGeluResidual) {
  const auto dense = kernel("dense", [](In<bf16, 2> A, In<bf16, 2> B, In<bf16, 1> bias,
                                        In<f32, 1> scale, InOut<bf16, 2> C, Scalar<f32> alpha) {
    for (auto [m, n] : grid(C, 64, 64)) {
      auto acc = zeros<f32>(64, 64);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
      const Tile x = acc * expand(scale(m), 1) * alpha + expand(cast<f32>(bias(n)), 0);
      C(m, n) = 0.5f * x * (1.0f + erf(x * 0.70710678f)) + cast<f32>(C(m, n));
    }
  });
  const std::int64_t m = 136, n = 88, k = 520;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               bias = integers({n}, DType::bf16, 3), scale = integers({m}, DType::f32, 4),
               C = empty({m, n}, DType::bf16);
  expect_same(
      dense, C, [&] { C.copy_from(integers({m, n}, DType::bf16, 5)); }, A, B, bias, scale, C,
      0.01f);
}

/// Two accumulators in one loop, and two results, one of them transposed.
TEST_P(Splits, GatedMatmuls) {
  for (const int bm : {64, 16}) {  // as they are, and as their transposes
    const auto gated = kernel("gated", [=](In<bf16, 2> A, In<bf16, 2> B, In<bf16, 2> G,
                                           Out<f32, 2> C, Out<f32, 2> turned) {
      for (auto [m, n] : grid(C, bm, 64)) {
        auto up = zeros<f32>(bm, 64), gate = zeros<f32>(bm, 64);
        for (auto k : steps(A.cols(), 64)) {
          up = dot(A(m, k), B(k, n), up);
          gate = dot(A(m, k), G(k, n), gate);
        }
        C(m, n) = up * max(0, gate);
        turned(n, m) = (up - gate).T();
      }
    });
    const std::int64_t m = 136, n = 88, k = 520;
    const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
                 G = integers({k, n}, DType::bf16, 3), C = empty({m, n}, DType::f32),
                 turned = empty({n, m}, DType::f32);
    for (const Tensor& result : {C, turned}) expect_same(gated, result, [] {}, A, B, G, C, turned);
  }
}

/// Rows of accumulators are folded along their columns, masked by their numbers, and reshaped.
TEST_P(Splits, RowsOfAccumulators) {
  const auto rows = kernel(
      "rows", [](In<bf16, 2> A, In<bf16, 2> B, Out<f32, 2> C, Out<f32, 1> top, Out<i32, 1> place) {
        for (auto m : grid(tegula::rows(C), 64)) {
          const Index n(Tile(0), 64);
          auto acc = zeros<f32>(64, 64);
          for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
          const Tile row = m.indices(), col = n.indices();
          const Tile x = where(expand(row, 1) >= expand(col, 0), acc, -1000.0f);
          top(m) = max(x, axis(1));
          place(m) = argmax(x, axis(1));
          C(m, n) = x - expand(sum(x, axis(1)), 1);
        }
      });
  const std::int64_t m = 200, n = 64, k = 200;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               C = empty({m, n}, DType::f32), top = empty({m}, DType::f32),
               place = empty({m}, DType::i32);
  for (const Tensor& result : {C, top, place})
    expect_same(rows, result, [] {}, A, B, C, top, place);
}

/// Sums that begin with something, and go on in a second loop.
TEST_P(Splits, SumsOfTwoLoops) {
  const auto both = kernel("both", [](In<bf16, 2> A, In<bf16, 2> B, In<bf16, 2> D, In<bf16, 2> E,
                                      In<f32, 1> bias, InOut<f32, 2> C) {
    for (auto [m, n] : grid(C, 64, 64)) {
      Tile acc = C(m, n), other = zeros<f32>(64, 64);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
      for (auto k : steps(D.cols(), 32)) {
        acc = dot(D(m, k), E(k, n), acc);
        other = dot(D(m, k), E(k, n), other);
      }
      C(m, n) = acc - 2 * other + expand(bias(n), 0);
    }
  });
  const std::int64_t m = 136, n = 88, k = 520, r = 40;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               D = integers({m, r}, DType::bf16, 3), E = integers({r, n}, DType::bf16, 4),
               bias = integers({n}, DType::f32, 5), C = empty({m, n}, DType::f32);
  expect_same(both, C, [&] { C.copy_from(integers({m, n}, DType::f32, 6)); }, A, B, D, E, bias, C);
}

/// Loops around the mainloop that carry its accumulators on, and a loop whose iterations scale
/// another's accumulator.
TEST_P(Splits, LoopsAroundTheLoop) {
  const auto taps = kernel("taps", [](In<bf16, 3> A, In<bf16, 3> B, InOut<f32, 2> C) {
    for (auto [m, n] : grid(C, 64, 64)) {
      Tile acc = C(m, n);
      for (auto e : steps(A.dim(0), 1))
        for (auto k : steps(A.dim(2), 32)) acc = dot(A(e, m, k), B(e, k, n), acc);
      C(m, n) = acc;
    }
  });
  const auto scaled =
      kernel("scaled", [](In<bf16, 2> A, In<bf16, 2> B, Scalar<f32> scale, Out<f32, 2> C) {
        for (auto [m, n] : grid(C, 64, 64)) {
          auto acc = zeros<f32>(64, 64);
          for (auto r : steps(A.cols(), 64)) {
            auto part = zeros<f32>(64, 64);
            for (auto k : steps(r.first(), r.first() + 64, 32)) part = dot(A(m, k), B(k, n), part);
            acc = acc + part * scale;
          }
          C(m, n) = acc;
        }
      });
  const std::int64_t m = 72, n = 88, k = 136, taps_of = 3;
  const Tensor A = integers({taps_of, m, k}, DType::bf16, 1),
               B = integers({taps_of, k, n}, DType::bf16, 2), C = empty({m, n}, DType::f32);
  expect_same(taps, C, [&] { C.copy_from(integers({m, n}, DType::f32, 6)); }, A, B, C);
  expect_same(scaled, C, [] {}, A.select(0, 0), B.select(0, 0), 0.5f, C);
}

/// Tiles of addresses are cut as tiles of numbers are.
TEST_P(Splits, ThroughPointers) {
  const auto scattered = kernel("scattered", [](In<bf16, 2> A, In<bf16, 2> B, Ptr<f32> out,
                                                Ptr<f32> more, InOut<f32, 2> shape) {
    for (auto [m, n] : grid(shape, 64, 64)) {
      auto acc = zeros<f32>(64, 64);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
      const Tile row = expand(m.indices(), 1), col = expand(n.indices(), 0);
      const Tile here = row < shape.rows() && col < shape.cols(), at = row * shape.cols() + col;
      store(out + at, acc, here);
      atomic_add(more + at, acc + 1, here);
    }
  });
  const auto gathered = kernel("gathered", [](In<bf16, 2> A, In<bf16, 2> B, Ptr<const f32> table,
                                              In<i32, 1> entry, Out<f32, 2> C) {
    for (auto [m, n] : grid(C, 64, 64)) {
      auto acc = zeros<f32>(64, 64);
      for (auto k : steps(A.cols(), 64)) acc = dot(A(m, k), B(k, n), acc);
      C(m, n) = acc * expand(load(table + entry(m)), 1);
    }
  });
  const std::int64_t m = 72, n = 88, k = 520;
  const Tensor A = integers({m, k}, DType::bf16, 1), B = integers({k, n}, DType::bf16, 2),
               out = empty({m, n}, DType::f32), more = empty({m, n}, DType::f32),
               shape = empty({m, n}, DType::f32), table = integers({8}, DType::f32, 3),
               entry = Tensor::integers({m}, DType::i32, 0, 8, 4, GetParam());
  const auto reset = [&] { more.copy_from(integers({m, n}, DType::f32, 6)); };
  for (const Tensor& result : {out, more})
    expect_same(scattered, result, reset, A, B, out, more, shape);
  expect_same(gathered, out, [] {}, A, B, table, entry, out);
}

/// Promoted accumulators of 8-bit types, entries of a batch, and results that are added to memory.
TEST_P(Splits, BatchesAddedToMemory) {
  const auto added = kernel("added", [](In<f8e4m3, 3> A, In<f8e4m3, 3> B, InOut<f32, 3> C) {
    for (auto [b, m, n] : grid(C, 1, 64, 64)) {
      auto acc = zeros<f32>(64, 64);
      for (auto k : steps(A.dim(2), 64)) acc = acc + dot(A(b, m, k), B(b, k, n));
      atomic_add(C(b, m, n), acc);
    }
  });
  const Tensor A = integers({3, 72, 144}, DType::f8e4m3, 1),
               B = integers({3, 144, 88}, DType::f8e4m3, 2, true),
               C = empty({3, 72, 88}, DType::f32);
  expect_same(
      added, C, [&] { C.copy_from(Tensor::full({3, 72, 88}, 3, DType::f32, GetParam())); }, A, B,
      C);
}

}  // namespace
}  // namespace tegula::cluster_split_k_test
