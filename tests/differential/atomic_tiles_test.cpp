// Tiles that programs add to, or compare with, what is in memory: `atomic_add(C(m, n), acc)` and
// its kin, on every available device. Sums are of small integers, so that their order makes no
// difference.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "support/env.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::atomic_tiles_test {
namespace {

using test::expect_equal;
using test::product;

constexpr double kBefore = 5;
constexpr const char* kByTma = "applied: stored by TMA";
constexpr const char* kNotByTma = "no stores by TMA: TMA supports none of the results";

/// C += A B, each tile computed by so many programs.
template <class T, class O>
auto added_parts(int bm, int bn) {
  return kernel("added_parts", [=](In<T, 2> A, In<T, 2> B, InOut<O, 2> C, Scalar<i32> parts) {
    for (auto [s, m, n] : grid({parts, C.rows(), C.cols()}, 1, bm, bn)) {
      auto acc = zeros<f32>(bm, bn);
      for (auto k : steps(A.cols(), 64).chunk(s.first(), parts)) acc = dot(A(m, k), B(k, n), acc);
      atomic_add(C(m, n), acc);
    }
  });
}

class AtomicTiles : public test::OnDevice {
 protected:
  void plan(const std::string& fields) {
    scope_.reset();
    Env changed = env();
    changed.plan = fields;
    scope_ = std::make_unique<EnvOverride>(changed);
  }
  Tensor filled(const Dims& shape, DType dtype) const {
    return Tensor::full(shape, kBefore, dtype, GetParam());
  }
  /// Nothing is compiled for the cpu, and TMA is not everywhere.
  void expect_said(const std::string& said, const char* what) const {
    if (GetParam().kind == DeviceKind::cpu) return;
    if (GetParam().kind == DeviceKind::cuda && said.find("wgmma=1") == std::string::npos) return;
    EXPECT_NE(said.find(what), std::string::npos) << said;
  }
  template <class T, class O>
  void check(int bm, int bn, const char* said) {
    const auto kernel = added_parts<T, O>(bm, bn);
    for (const std::int64_t rows : {264, 8})
      for (const int parts : {1, 3}) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << parts << " parts");
        const Tensor A = integers({rows, 328}, dtype_of<T>, 1),
                     B = integers({328, 200}, dtype_of<T>, 2), C = filled({rows, 200}, dtype_of<O>);
        kernel(stream(), A, B, C, parts);
        expect_equal(C, with_before(product(A, B)));
      }
    expect_said(kernel.explain(), said);
  }
  template <class T>
  void add_runs() {
    SCOPED_TRACE(name(dtype_of<T>));
    const auto added = kernel("added", [](In<T, 2> x, InOut<T, 2> y, Scalar<i32> times) {
      for (auto [s, r, c] : grid({times, y.rows(), y.cols()}, 1, 8, 128)) {
        (void)s;
        atomic_add(y(r, c), x(r, c));
      }
    });
    constexpr std::int64_t kRows = 13, kTimes = 3, kBehind = 9;
    for (const std::int64_t n : {256, 200, 196, 194, 251}) {
      SCOPED_TRACE(n);
      const Tensor x = integers({kRows, n}, dtype_of<T>, 1),
                   memory = filled({kRows * n + kBehind}, dtype_of<T>);
      added(stream(), x, memory.slice(0, 0, kRows * n).reshape({kRows, n}), kTimes);
      std::vector<double> want = x.to_doubles();
      for (double& w : want) w = kBefore + kTimes * w;
      want.resize(static_cast<std::size_t>(kRows * n + kBehind), kBefore);
      expect_equal(memory, want);
    }
  }
  static std::vector<double> with_before(std::vector<double> sums) {
    for (double& x : sums) x += kBefore;
    return sums;
  }

 private:
  std::unique_ptr<EnvOverride> scope_;
};
INSTANTIATE_TEST_SUITE_P(Devices, AtomicTiles, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(AtomicTiles, ByTma) {
  plan("persistent=1 tma_store=1");
  check<bf16, f32>(128, 128, kByTma);
  check<f16, f32>(64, 96, kByTma);
}

TEST_P(AtomicTiles, ByTmaInBlocksOfColumns) {
  plan("persistent=1 tma_store=1 epilogue_tile_n=32");
  check<bf16, f32>(128, 128, kByTma);
}

/// Sums of few and small integers, which 16 bits hold.
TEST_P(AtomicTiles, Of16Bits) {
  plan("persistent=1 tma_store=1");
  check<f16, f16>(128, 128, kByTma);
  const auto kernel = added_parts<bf16, bf16>(128, 128);
  const Tensor A = Tensor::full({136, 192}, 1, DType::bf16, GetParam()),
               B = Tensor::full({192, 72}, 1, DType::bf16, GetParam()),
               C = filled({136, 72}, DType::bf16);
  kernel(stream(), A, B, C, 3);
  expect_equal(C, std::vector<double>(136 * 72, 192 + kBefore));
}

TEST_P(AtomicTiles, FromRegisters) {
  plan("tma_store=0");
  check<bf16, f32>(128, 128, "");
  plan("persistent=0");
  check<bf16, f32>(64, 64, "");
}

/// Rows that are not multiples of 16 bytes, and a part of a tensor: nothing next to it changes.
TEST_P(AtomicTiles, RaggedAndAmongOthers) {
  plan("persistent=1 tma_store=1");
  const std::int64_t m = 200, k = 72;
  for (const auto& [stride, first, n, said] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t, const char*>{140, 4, 132, kByTma},
        {141, 0, 132, kNotByTma},
        {140, 2, 132, kNotByTma},
        {140, 0, 131, kNotByTma}}) {
    SCOPED_TRACE(testing::Message() << n << " of " << stride << " columns from " << first);
    const auto kernel = added_parts<bf16, f32>(128, 64);
    const Tensor A = integers({m, k}, DType::bf16, 1),
                 B = integers({k, 136}, DType::bf16, 2).slice(1, 0, n),
                 whole = filled({m + 1, stride}, DType::f32);
    kernel(stream(), A, B, whole.slice(0, 0, m).slice(1, first, first + n), 2);
    const std::vector<double> sums = product(A, B);
    std::vector<double> want(static_cast<std::size_t>((m + 1) * stride), kBefore);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        want[static_cast<std::size_t>(i * stride + first + j)] +=
            sums[static_cast<std::size_t>(i * n + j)];
    expect_equal(whole, want);
    expect_said(kernel.explain(), said);
  }
}

/// The largest and the least of two products and what was there; i32 is compared by TMA, f32 is
/// not.
TEST_P(AtomicTiles, Extremes) {
  plan("persistent=1 tma_store=1");
  const auto extremes =
      kernel("extremes", [](In<i8, 2> A, In<i8, 2> B, InOut<i32, 2> high, InOut<i32, 2> low) {
        for (auto [s, m, n] : grid({2, high.rows(), high.cols()}, 1, 128, 64)) {
          auto acc = zeros<i32>(128, 64);
          for (auto k : steps(A.cols(), 128).chunk(s.first(), 2)) acc = dot(A(m, k), B(k, n), acc);
          atomic_max(high(m, n), acc);
          atomic_min(low(m, n), acc);
        }
      });
  const std::int64_t m = 136, n = 72, k = 256;
  const Tensor A = integers({m, k}, DType::i8, 1), B = integers({k, n}, DType::i8, 2, true),
               high = filled({m, n}, DType::i32), low = filled({m, n}, DType::i32);
  extremes(stream(), A, B, high, low);
  const auto first = product(A.slice(1, 0, 128), B.slice(0, 0, 128)),
             second = product(A.slice(1, 128, 256), B.slice(0, 128, 256));
  std::vector<double> most(first.size()), least(first.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    most[i] = std::max({first[i], second[i], kBefore});
    least[i] = std::min({first[i], second[i], kBefore});
  }
  expect_equal(high, most);
  expect_equal(low, least);
  expect_said(extremes.explain(), kByTma);
}

/// Kernels without MMAs; old values; elements that are absent, by a mask or a ragged edge.
TEST_P(AtomicTiles, OldValues) {
  const auto counted = kernel("counted", [](In<i32, 1> x, InOut<i32, 1> sum, Out<i32, 1> old) {
    old.partial();
    for (auto i : grid(x, 64)) old(i) = atomic_add(sum(i), x(i) + 1);
  });
  const std::int64_t n = 100;
  const Tensor x = Tensor::iota({n}, DType::i32, GetParam()), sum = filled({n + 20}, DType::i32),
               old = Tensor::zeros({n + 28}, DType::i32, GetParam());
  counted(stream(), x, sum, old);
  std::vector<double> was(n + 28, 0), is(n + 20, kBefore);
  for (std::size_t i = 0; i < n; ++i) was[i] = kBefore, is[i] += static_cast<double>(i) + 1;
  expect_equal(old, was);
  expect_equal(sum, is);
}

/// y += x several times over, by programs that meet in each element. Neighbours are added by one
/// instruction (the assembler's twin: assemble_atomics_test) where rows of y are whole words; rows
/// of 251 elements are not, and nothing after a ragged end may change.
TEST_P(AtomicTiles, RunsOfNeighbours) {
  add_runs<bf16>();
  add_runs<f16>();
  add_runs<f32>();
  add_runs<f64>();
}

/// Absent indices or values, after the end of x, go nowhere.
TEST_P(AtomicTiles, AbsentIndicesAndValues) {
  const auto scattered =
      kernel("scattered", [](In<i32, 1> x, InOut<i32, 1> count, InOut<i32, 1> seen, Ptr<i32> copy) {
        for (auto i : grid(x, 64)) {
          atomic_add(count(x(i)), 1);
          seen(x(i)) = 7;
          store(copy + i.indices(), x(i) + 3);
        }
      });
  const std::int64_t n = 100, first = 9;
  std::vector<i32> indices(n);
  std::iota(indices.begin(), indices.end(), first);
  const Tensor x = Tensor::from(indices, GetParam()), count = filled({128}, DType::i32),
               seen = filled({128}, DType::i32), copy = filled({128}, DType::i32);
  scattered(stream(), x, count, seen, copy);
  std::vector<double> counts(128, kBefore), marks = counts, values = counts;
  for (std::size_t i = 0; i < n; ++i) {
    counts[i + first] += 1, marks[i + first] = 7;
    values[i] = static_cast<double>(i + first) + 3;
  }
  expect_equal(count, counts);
  expect_equal(seen, marks);
  expect_equal(copy, values);
}

/// Each program takes a place by a counter, which all its threads need to know, and writes tiles
/// that are not powers of two there; elements that several threads hold count once.
TEST_P(AtomicTiles, PlacesByACounter) {
  constexpr int kWidth = 5, kPrograms = 7;
  const auto placed = kernel("placed", [](Ptr<i32> counter, Ptr<i32> out, InOut<i32, 1> total) {
    for (auto i : grid(GridSpace(full<i32>(kPrograms)), 1)) {
      const Tile slot = atomic_add(counter, 1), at = arange(kWidth);
      store(out + slot * kWidth + at, cast<i32>(i.first()) * 10 + at);
      const Tile ones = full<i32>(1, {kWidth}), old = atomic_add(total(slice(0, kWidth)), ones);
      // The least of the five old values is as large as the largest: all were combined once.
      store(out + kPrograms * kWidth + slot, max(old, axis(0)) - min(old, axis(0)));
    }
  });
  const Tensor counter = Tensor::zeros({1}, DType::i32, GetParam()),
               out = filled({kPrograms * kWidth + kPrograms + 3}, DType::i32),
               total = filled({kWidth + 3}, DType::i32);
  placed(stream(), counter, out, total);
  expect_equal(counter, {kPrograms});
  std::vector<double> totals(kWidth + 3, kBefore);
  std::fill_n(totals.begin(), kWidth, kBefore + kPrograms);
  expect_equal(total, totals);
  std::vector<double> rows = out.to_doubles();
  EXPECT_EQ(rows[rows.size() - 1], kBefore) << "nothing behind the end";
  for (std::size_t r = 0; r < kPrograms; ++r) EXPECT_EQ(rows[kPrograms * kWidth + r], 0);
  std::vector<double> firsts;
  for (std::size_t r = 0; r < kPrograms; ++r) {
    firsts.push_back(rows[r * kWidth]);
    for (std::size_t j = 1; j < kWidth; ++j)
      EXPECT_EQ(rows[r * kWidth + j], rows[r * kWidth] + static_cast<double>(j));
  }
  std::ranges::sort(firsts);
  for (std::size_t r = 0; r < kPrograms; ++r) EXPECT_EQ(firsts[r], 10.0 * static_cast<double>(r));
}

}  // namespace
}  // namespace tegula::atomic_tiles_test
