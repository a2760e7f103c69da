// Products whose rows of A an index tile selects, by cp.async beside TMA into wgmmas: ragged
// segments, empty ones among them, by a CTA for each tile, by persistent ones and by clusters that
// multicast the other operand; products under a condition. Exact on small integers, on every device
// that is here.
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::gathered_products_test {
namespace {

class GatheredProducts : public test::OnDevice {
 protected:
  Tensor table(const std::vector<i32>& values) const { return Tensor::from(values, GetParam()); }
  /// The dot reads rows that threads copy, and stays in flight over iterations.
  template <class Kernel>
  void expect_gathered_wgmma(const Kernel& kernel) const {
    if (GetParam().kind == DeviceKind::cpu) return;
    const std::string said = kernel.explain();
    EXPECT_NE(said.find("dot by wgmma"), std::string::npos) << said;
    EXPECT_NE(said.find("a=gathered"), std::string::npos) << said;
    EXPECT_NE(said.find("pipelined by cp.async"), std::string::npos) << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, GatheredProducts, testing::ValuesIn(test::devices()),
                         test::device_name);

/// Some of the `n` rows are repeated, some are outside `rows`, some are -1.
std::vector<i32> places(int n, int rows) {
  std::vector<i32> all;
  for (int i = 0; i < n; ++i)
    all.push_back(i % 19 == 4 ? -1 : i % 23 == 7 ? rows + i : (i * 7) % rows);
  return all;
}

/// Rows i of each segment s: the product of row from[i] of A with B[s]; -77 where no segment is.
std::vector<double> expected(const Tensor& A, const Tensor& B, const std::vector<i32>& offsets,
                             const std::vector<i32>& from, const std::vector<bool>& skipped = {}) {
  const auto a = A.to_doubles(), b = B.to_doubles();
  const auto rows = A.size(0), depth = A.size(1), columns = B.size(2);
  std::vector<double> c(from.size() * static_cast<std::size_t>(columns), -77);
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    if (!skipped.empty() && skipped[s]) continue;
    for (std::int64_t i = offsets[s]; i < offsets[s + 1]; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        const std::int64_t row = from[static_cast<std::size_t>(i)];
        double sum = 0;
        for (std::int64_t k = 0; k < depth && row >= 0 && row < rows; ++k)
          sum += a[static_cast<std::size_t>(row * depth + k)] *
                 b[(s * static_cast<std::size_t>(depth) + static_cast<std::size_t>(k)) *
                       static_cast<std::size_t>(columns) +
                   static_cast<std::size_t>(j)];
        c[static_cast<std::size_t>(i * columns + j)] = sum;
      }
  }
  return c;
}

struct Tiles {
  int bm, bn, bk;
};

template <class T = bf16>
auto grouped(Tiles t) {
  return kernel("gathered_groups",
                [=](In<T, 2> A, In<T, 3> B, In<i32, 1> offsets, In<i32, 1> from, Out<f32, 2> C) {
                  C.partial();  // rows behind the last segment stay
                  for (auto [s, m, n] :
                       grid(segments(offsets, from.dim(0)).by(C.cols()), t.bm, t.bn, group_m(4))) {
                    const Tile rows = from(m);
                    Tile sum = zeros<f32>(t.bm, t.bn);
                    for (auto k : steps(A.cols(), t.bk)) sum = dot(A(rows, k), B(s, k, n), sum);
                    C(m, n) = sum;
                  }
                });
}

/// No iterations, fewer than the ring has slots, as many, and more; a ragged last one.
TEST_P(GatheredProducts, Segments) {
  const std::vector<i32> offsets{0, 0, 5, 5, 140, 150, 150};
  const auto from = places(160, 90);
  for (const Tiles t : {Tiles{128, 64, 64}, Tiles{64, 128, 32}}) {
    const auto product = grouped(t);
    for (const std::int64_t depth : {0, 64, 128, 200, 256, 456}) {
      SCOPED_TRACE(testing::Message() << t.bm << " rows, depth " << depth);
      const Tensor A = integers({90, depth}, DType::bf16, 1),
                   B = integers({6, depth, 136}, DType::bf16, 2),
                   C = Tensor::full({160, 136}, -77, DType::f32, GetParam());
      product(stream(), A, B, table(offsets), table(from), C);
      test::expect_equal(C, expected(A, B, offsets, from));
      if (depth == 256) expect_gathered_wgmma(product);
    }
  }
}

/// Tiles by each scheduler, and operands that both CTAs of a cluster load once.
struct Scheduled {
  PlanPatch plan;
  bool is_dynamic = false, is_shared = false;
};
const Scheduled kScheduled[] = {
    {{.multicast = true}, true, true},
    {{.dynamic_scheduler = false, .multicast = true}, false, true},
    {{.stages = 3, .multicast = true}, true, true},
    {{.stages = 2, .producer_warps = 0, .consumer_registers = 0, .multicast = true}, true, true},
    {{.persistent = true}},
    {{.persistent = true, .dynamic_scheduler = true}, true}};

/// Uneven and empty segments, in more tiles than there are CTAs, an odd number of them; in fewer;
/// one segment, one of a single row, none.
const std::vector<i32> kSegments[] = {
    {0, 129, 129, 260, 400, 401}, {0, 0, 5, 5, 140, 150, 150}, {0, 300}, {0, 1}, {0, 0, 0}};

class ScheduledGathers : public GatheredProducts {
 protected:
  /// No steps, fewer than slots, more. The first plan has all of it, others what is of more tiles.
  template <class T>
  void expect_segments(Tiles tiles, bool swap_ab, const char* gathered) const {
    const std::span all(kSegments);
    for (Scheduled of : kScheduled) {
      const bool is_first = of.plan == kScheduled[0].plan;
      if (swap_ab) of.plan.swap_ab = true;
      const auto product = grouped<T>(tiles).prefer(of.plan);
      for (const std::vector<i32>& offsets : all.first(is_first ? all.size() : 1))
        for (const std::int64_t depth : {0, 64, 200, 328})
          if (is_first || depth == 328) expect_product<T>(product, offsets, depth);
      if (GetParam().kind == DeviceKind::cpu) return;  // to which plans are the same
      expect_plan(product.explain(), of, gathered);
    }
  }

 private:
  template <class T, class Kernel>
  void expect_product(const Kernel& product, const std::vector<i32>& offsets,
                      std::int64_t depth) const {
    SCOPED_TRACE(testing::PrintToString(offsets) + " depth " + std::to_string(depth));
    const auto from = places(offsets.back() + 10, 90);
    const Tensor A = integers({90, depth}, dtype_of<T>, 1),
                 B = integers({std::ssize(offsets) - 1, depth, 136}, dtype_of<T>, 2);
    const auto want = expected(A, B, offsets, from);
    for (int launch = 0; launch < 2; ++launch) {  // as nothing may be left behind
      const Tensor C = Tensor::full({std::ssize(from), 136}, -77, DType::f32, GetParam());
      product(stream(), A, B, table(offsets), table(from), C);
      test::expect_equal(C, want);
    }
  }
  void expect_plan(const std::string& said, const Scheduled& of, const char* gathered) const {
    for (const char* what :
         {gathered, "persistent=1", "pipelined by cp.async",
          of.is_dynamic ? "dynamic_scheduler=1" : "dynamic_scheduler=0",
          of.is_shared ? "multicast=1" : "multicast=0", of.is_shared ? "shared=1" : "shared=0"})
      EXPECT_NE(said.find(what), std::string::npos) << what << " of " << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ScheduledGathers, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(ScheduledGathers, Segments) { expect_segments<bf16>({128, 128, 64}, false, "a=gathered"); }
/// Few rows, which are the tensor cores' columns.
TEST_P(ScheduledGathers, AlongColumns) {
  expect_segments<f16>({144, 128, 64}, true, "b=gathered^T");
}

/// Warps with two blocks of rows have no register order for a number of columns that is not a power
/// of two: such a product does not use wgmma.
TEST_P(GatheredProducts, BlocksOfRowsBelowEachOther) {
  const std::vector<i32> offsets{0, 5, 100};
  const auto from = places(100, 90);
  const Tensor A = integers({90, 200}, DType::bf16, 1), B = integers({2, 200, 136}, DType::bf16, 2),
               C = Tensor::full({100, 136}, -77, DType::f32, GetParam());
  for (const int rows : {48, 64}) {
    const auto product = grouped({rows, 256, 64}).prefer({.swap_ab = true});
    product(stream(), A, B, table(offsets), table(from), C);
    test::expect_equal(C, expected(A, B, offsets, from));
    if (GetParam().kind == DeviceKind::cpu) continue;
    EXPECT_EQ(product.explain().find("dot by wgmma") != std::string::npos, rows == 64);
  }
}

/// A product under a condition that only the device knows.
TEST_P(GatheredProducts, UnderAConditionOfTheDevice) {
  const auto product = kernel("wanted", [](In<bf16, 2> A, In<bf16, 3> B, In<i32, 1> wanted,
                                           In<i32, 1> from, Out<f32, 2> C) {
    C.partial();
    for (auto [s, m] : grid({B.dim(0), Tile(64)}, 1, 64)) {
      const Index block = slice(s.first() * 64, 64);
      if_(wanted(s.first()) > 0, [&, &s = s] {
        const Tile rows = from(block);
        Tile sum = zeros<f32>(64, 64);
        for (auto k : steps(A.cols(), 64)) sum = dot(A(rows, k), B(s, k, all), sum);
        C(block, all) = sum;
      });
    }
  });
  const auto from = places(192, 90);
  const Tensor A = integers({90, 256}, DType::bf16, 1), B = integers({3, 256, 64}, DType::bf16, 2),
               C = Tensor::full({192, 64}, -77, DType::f32, GetParam());
  product(stream(), A, B, table({1, 0, 1}), table(from), C);
  test::expect_equal(C, expected(A, B, {0, 64, 128, 192}, from, {false, true, false}));
  expect_gathered_wgmma(product);
}

/// What the loop computes of the rows' product is read in it: nothing stays in flight.
TEST_P(GatheredProducts, SumsThatTheLoopReads) {
  const auto product =
      kernel("clamped", [](In<bf16, 2> A, In<bf16, 2> B, In<i32, 1> from, Out<f32, 2> C) {
        for (auto m : grid(rows(C), 128)) {
          const Tile rows = from(m);
          Tile sum = zeros<f32>(128, 64);
          for (auto k : steps(A.cols(), 64))
            sum = sum + min(max(dot(A(rows, k), B(k, all)), -9.0f), 9.0f);
          C(m, all) = sum;
        }
      });
  const auto from = places(200, 90);
  const Tensor A = integers({90, 328}, DType::bf16, 1), B = integers({328, 64}, DType::bf16, 2),
               C = empty({200, 64}, DType::f32);
  product(stream(), A, B, table(from), C);
  const auto a = A.to_doubles(), b = B.to_doubles();
  std::vector<double> want(200 * 64);
  for (std::size_t i = 0; i < 200; ++i)
    for (std::size_t j = 0; j < 64; ++j)
      for (std::size_t first = 0; first < 328; first += 64) {
        double sum = 0;
        for (std::size_t k = first; k < std::min<std::size_t>(328, first + 64); ++k)
          if (from[i] >= 0 && from[i] < 90)
            sum += a[static_cast<std::size_t>(from[i]) * 328 + k] * b[k * 64 + j];
        want[i * 64 + j] += std::clamp(sum, -9.0, 9.0);
      }
  test::expect_equal(C, want);
  expect_gathered_wgmma(product);
}

}  // namespace
}  // namespace tegula::gathered_products_test
