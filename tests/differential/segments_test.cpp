// Ragged rows whose offsets only the device knows, on every available device, against host
// arithmetic: products of segments, sums of them, empty ones, none at all, and replays with others.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "support/env.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::segments_test {
namespace {

class Segments : public testing::TestWithParam<Device> {
 protected:
  Tensor integers(const Dims& shape, DType type, std::uint64_t seed) const {
    return Tensor::integers(shape, type, -4, 4, seed, GetParam());
  }
  Tensor table(const std::vector<i32>& values) const { return Tensor::from(values, GetParam()); }
  Stream stream() const { return Stream(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Segments, testing::ValuesIn(test::devices()), test::device_name);

/// C[rows of segment s] = A[rows of segment s] B[s].
auto grouped_product(int bm, int bn, int bk) {
  return kernel("grouped", [=](In<bf16, 2> A, In<bf16, 3> B, In<i32, 1> offsets, Out<f32, 2> C) {
    C.partial();  // rows after the last segment stay
    for (auto [s, m, n] : grid(segments(offsets, A.rows()).by(C.cols()), bm, bn, group_m(4))) {
      Tile sum = zeros<f32>(bm, bn);
      for (auto k : steps(A.cols(), bk)) sum = dot(A(m, k), B(s, k, n), sum);
      C(m, n) = sum;
    }
  });
}

std::vector<i32> offsets_of(const std::vector<i32>& lengths) {
  std::vector<i32> offsets{0};
  for (const i32 n : lengths) offsets.push_back(offsets.back() + n);
  return offsets;
}

/// In integers that every order of adding gives exactly; -77 where no segment is.
std::vector<double> grouped(const Tensor& A, const Tensor& B, const std::vector<i32>& offsets) {
  const auto a = A.to_doubles(), b = B.to_doubles();
  const auto rows = static_cast<std::size_t>(A.size(0)),
             depth = static_cast<std::size_t>(A.size(1)),
             columns = static_cast<std::size_t>(B.size(2));
  std::vector<double> c(rows * columns, -77);
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    for (auto i = static_cast<std::size_t>(offsets[s]);
         i < static_cast<std::size_t>(offsets[s + 1]); ++i)
      for (std::size_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < depth; ++k)
          sum += a[i * depth + k] * b[(s * depth + k) * columns + j];
        c[i * columns + j] = sum;
      }
  return c;
}

void expect_equal(const Tensor& got, const std::vector<double>& want) {
  const auto values = got.to_doubles();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(values[i], want[i]) << "element " << i;
}

/// 64 segments, a third of them empty, with rows after the last one; TMA and wgmma.
TEST_P(Segments, GroupedProduct) {
  std::mt19937 random(7);
  std::vector<i32> lengths;
  for (int s = 0; s < 64; ++s)
    lengths.push_back(s % 3 == 1 ? 0 : static_cast<i32>(random() % 40 + (s == 30 ? 200 : 0)));
  const auto offsets = offsets_of(lengths);
  const Tensor A = integers({offsets.back() + 50, 128}, DType::bf16, 1),
               B = integers({64, 128, 64}, DType::bf16, 2);
  auto product = grouped_product(128, 64, 64);
  const Tensor C = Tensor::full({A.size(0), 64}, -77, DType::f32, GetParam());
  product(stream(), A, B, table(offsets), C);
  expect_equal(C, grouped(A, B, offsets));
  if (GetParam().kind == DeviceKind::cpu) return;
  const std::string said = product.explain();
  for (const char* what : {"dot by wgmma", "loaded by TMA"})
    EXPECT_NE(said.find(what), std::string::npos) << said;
}

/// A program for many tiles, which requests the next one while it computes.
TEST_P(Segments, PersistentPrograms) {
  const auto offsets = offsets_of({300, 0, 5, 128, 0, 0, 129, 1, 400, 0});
  const Tensor A = integers({offsets.back(), 192}, DType::bf16, 1),
               B = integers({10, 192, 136}, DType::bf16, 2),
               C = Tensor::full({A.size(0), 136}, -77, DType::f32, GetParam());
  auto product = grouped_product(128, 128, 64);
  product(stream(), A, B, table(offsets), C);
  expect_equal(C, grouped(A, B, offsets));
  if (GetParam().kind == DeviceKind::cpu) return;
  const std::string said = product.explain();
  for (const char* what : {"persistent=1", "dynamic_scheduler=1", "dot by wgmma"})
    EXPECT_NE(said.find(what), std::string::npos) << said;
}

/// Segments round pairs of tiles of 128 rows, empty ones among them, odd and even numbers of tiles.
const std::vector<std::vector<i32>> kRagged = {{},
                                               {0, 0, 130, 0},
                                               {1},
                                               {128},
                                               {256, 256},
                                               {0, 0},
                                               {257, 127, 128, 129},
                                               {512},
                                               {1, 1, 1, 1, 1, 640},
                                               {300, 0, 5, 128, 0, 0, 129, 1, 400, 0}};

class MulticastSegments : public Segments {
 protected:
  /// Columns of W [s] are loaded once for both tiles of a cluster.
  template <class Kernel>
  void expect_multicast(const Kernel& kernel, const char* scheduler) const {
    if (GetParam().kind == DeviceKind::cpu) return;
    const std::string said = kernel.explain();
    for (const char* what : {"persistent=1", "multicast=1", scheduler, "shared=1", "shared=0"})
      EXPECT_NE(said.find(what), std::string::npos) << what << " of " << said;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, MulticastSegments, testing::ValuesIn(test::devices()),
                         test::device_name);

/// Clusters of two on neighbouring tiles, either of which may have no rows or be of another
/// segment; steps of a number known at launch, none among them. Two launches, as nothing may be
/// left after.
TEST_P(MulticastSegments, GroupedProduct) {
  for (const char* plan : {"", "producer_warps=0 consumer_registers=0", "stages=2",
                           "producer_warps=1 consumer_registers=0", "dynamic_scheduler=0"}) {
    SCOPED_TRACE(plan);
    Env changed = env();
    changed.plan = plan;
    const EnvOverride scope(changed);
    const auto product = grouped_product(128, 128, 64).prefer({.multicast = true});
    const bool is_usual = *plan == 0;
    for (const std::vector<i32>& lengths : std::span(kRagged).subspan(is_usual ? 0 : 6))
      for (const auto& [depth, columns] : {std::pair(0, 128), {64, 128}, {192, 136}}) {
        const auto offsets = offsets_of(lengths);
        SCOPED_TRACE(testing::PrintToString(offsets) + " depth " + std::to_string(depth));
        const Tensor A = integers({offsets.back() + 3, depth}, DType::bf16, 1),
                     B = integers({std::ssize(lengths), depth, columns}, DType::bf16, 2);
        for (int launch = 0; launch < (is_usual ? 2 : 1); ++launch) {
          const Tensor C = Tensor::full({A.size(0), columns}, -77, DType::f32, GetParam());
          product(stream(), A, B, table(offsets), C);
          expect_equal(C, grouped(A, B, offsets));
        }
      }
    const bool is_static = std::string_view(plan).starts_with("dynamic");
    expect_multicast(product, is_static ? "dynamic_scheduler=0" : "dynamic_scheduler=1");
  }
}

/// Numbers that leave a gap after a segment, or none: a cluster's tiles may be of two segments,
/// and the last one may be alone. Nothing is read before the kernel in front has ended.
TEST_P(MulticastSegments, TwoSegments) {
  Env changed = env();
  changed.plan = "multicast=1";
  const EnvOverride scope(changed);
  const auto gaps = grouped_product(128, 128, 64);
  const auto counted = kernel("counted", [](In<bf16, 2> A, In<bf16, 3> B, In<i32, 1> offsets,
                                            In<i32, 1> first_tiles, Out<f32, 2> C) {
    C.partial();
    const auto space = segments(offsets, A.rows()).by(C.cols()).numbered(first_tiles);
    for (auto [s, m, n] : grid(space, 128, 128, group_m(8))) {
      grid_dependency_wait();
      Tile sum = zeros<f32>(128, 128);
      for (auto k : steps(A.cols(), 64)) sum = dot(A(m, k), B(s, k, n), sum);
      C(m, n) = sum;
    }
  });
  for (const std::vector<i32>& lengths : kRagged)
    for (const int columns : {72, 264}) {
      const auto offsets = offsets_of(lengths);
      SCOPED_TRACE(testing::PrintToString(offsets) + " columns " + std::to_string(columns));
      std::vector<i32> tiles;
      for (const i32 n : lengths) tiles.push_back((n + 127) / 128);
      const Tensor A = integers({offsets.back(), 128}, DType::bf16, 1),
                   B = integers({std::ssize(lengths), 128, columns}, DType::bf16, 2);
      const auto want = grouped(A, B, offsets);
      const auto result = [&] {
        return Tensor::full({A.size(0), columns}, -77, DType::f32, GetParam());
      };
      const Tensor C = result(), D = result();
      gaps(stream(), A, B, table(offsets), C);
      expect_equal(C, want);
      counted(stream(), A, B, table(offsets), table(offsets_of(tiles)), D);
      expect_equal(D, want);
    }
  expect_multicast(gaps, "dynamic_scheduler=1");
  expect_multicast(counted, "dynamic_scheduler=1");
}

/// A tile without rows has its neighbour's trips, in which indices that are read for it are outside
/// of their view, and other indices name no element of a tile: nobody is told so.
TEST_P(MulticastSegments, ChecksOfTilesWithoutRows) {
  Env changed = env();
  changed.plan = "multicast=1";
  const EnvOverride scope(changed);
  const auto product = kernel("checked", [](In<bf16, 2> A, In<bf16, 3> B, In<i32, 1> offsets,
                                            In<i32, 1> other, Out<f32, 2> C) {
    C.partial();
    for (auto [s, m, n] : grid(segments(offsets, A.rows()).by(C.cols()), 128, 64)) {
      Tile own = zeros<f32>(128, 64), others = own;
      for (auto k : steps(A.cols(), 64)) {
        const Tile a = A(m, k), place = other(m.first());
        own = dot(a, B(s, k, n), own);
        others = dot(a, B(place, k, n), others);
        const Tile columns = arange(64) + where(m.first() < A.rows(), 0, 64);
        others = gather(others, columns(none, all), 1);
      }
      C(m, n) = own + others;
    }
  });
  const std::vector<i32> offsets{0, 128};
  const Tensor A = integers({128, 192}, DType::bf16, 1), B = integers({1, 192, 64}, DType::bf16, 2),
               C = Tensor::full({128, 64}, -77, DType::f32, GetParam());
  product(stream(), A, B, table(offsets), Tensor::zeros({128}, DType::i32, GetParam()), C);
  auto want = grouped(A, B, offsets);
  for (double& v : want) v *= 2;
  expect_equal(C, want);
  expect_multicast(product, "dynamic_scheduler=1");
}

/// Facts that the program states of a tile's own rows need not hold for a tile without rows.
TEST_P(MulticastSegments, StatedFacts) {
  Env changed = env();
  changed.plan = "multicast=1";
  const EnvOverride scope(changed);
  const auto product = kernel("stated", [](In<bf16, 2> A, In<bf16, 3> B, In<i32, 1> offsets,
                                           In<f32, 1> scale, Out<f32, 2> C) {
    C.partial();
    for (auto [s, m, n] : grid(segments(offsets, A.rows()).by(C.cols()), 128, 128)) {
      Tile sum = zeros<f32>(128, 128);
      for (auto k : steps(A.cols(), 64)) {
        assume(m.first() < A.rows());
        sum = dot(A(m, k), B(s, k, n), sum) + scale(m.first());
      }
      C(m, n) = sum;
    }
  });
  const std::vector<i32> offsets{0, 128};
  const Tensor A = integers({128, 192}, DType::bf16, 1),
               B = integers({1, 192, 128}, DType::bf16, 2),
               C = Tensor::full({128, 128}, -77, DType::f32, GetParam());
  product(stream(), A, B, table(offsets), Tensor::full({128}, 1, DType::f32, GetParam()), C);
  auto want = grouped(A, B, offsets);
  for (double& v : want) v += 3;
  expect_equal(C, want);
}

/// Effects outside the tile's rows happen once per tile, before and after a mainloop, and do not
/// happen for numbers without a tile.
TEST_P(Segments, OtherEffects) {
  const auto counted =
      kernel("counted", [](In<bf16, 2> A, In<bf16, 2> B, In<i32, 1> offsets, InOut<i32, 2> tiles,
                           InOut<f32, 1> sums, Out<f32, 2> C) {
        for (auto [s, m] : grid(segments(offsets, A.rows()), 64)) {
          atomic_add(tiles(s, 0), 1);
          Tile sum = zeros<f32>(64, 64);
          for (auto k : steps(A.cols(), 64)) sum = dot(A(m, k), B(k, slice(0, 64)), sum);
          const Tile old = atomic_add(tiles(s, 1), 2);
          C(m, slice(0, 64)) = sum + cast<f32>(old & 1);
          atomic_add(sums(s), tegula::sum(sum));
        }
      });
  const std::vector<i32> lengths{0, 1, 64, 65, 0, 200, 0, 0};
  const auto offsets = offsets_of(lengths);
  const auto groups = static_cast<std::int64_t>(lengths.size());
  const Tensor A = integers({offsets.back(), 64}, DType::bf16, 1),
               B = integers({64, 64}, DType::bf16, 2),
               tiles = Tensor::zeros({groups, 2}, DType::i32, GetParam()),
               sums = Tensor::zeros({groups}, DType::f32, GetParam()),
               C = Tensor::full({A.size(0), 64}, -77, DType::f32, GetParam());
  counted(stream(), A, B, table(offsets), tiles, sums, C);
  const auto n = tiles.to_doubles(), total = sums.to_doubles();
  // All segments have one B.
  const auto want = grouped(A, B.broadcast_to({groups, 64, 64}), offsets);
  for (std::int64_t s = 0; s < groups; ++s) {
    EXPECT_EQ(n[2 * s], (lengths[s] + 63) / 64) << s;
    EXPECT_EQ(n[2 * s + 1], (lengths[s] + 63) / 64 * 2) << s;
    double all = 0;
    for (i32 i = offsets[s] * 64; i < offsets[s + 1] * 64; ++i) all += want[i];
    EXPECT_EQ(total[s], all) << s;
  }
  expect_equal(C, want);
}

/// Lengths round a tile's; everything in one segment; all empty; one segment; none.
TEST_P(Segments, Lengths) {
  auto product = grouped_product(64, 32, 32);
  for (const std::vector<i32>& lengths :
       {std::vector<i32>{1, 63, 64, 65}, {0, 0, 130, 0}, {0, 0, 0}, {17}, {}, {0, 64, 0, 0, 1}}) {
    const auto offsets = offsets_of(lengths);
    SCOPED_TRACE(testing::PrintToString(offsets));
    const auto groups = static_cast<std::int64_t>(lengths.size());
    const Tensor A = integers({offsets.back() + 3, 40}, DType::bf16, 1),
                 B = integers({groups, 40, 50}, DType::bf16, 2),
                 C = Tensor::full({A.size(0), 50}, -77, DType::f32, GetParam());
    product(stream(), A, B, table(offsets), C);
    expect_equal(C, grouped(A, B, offsets));
  }
}

/// Counted tile numbers give the same result.
TEST_P(Segments, CountedNumbers) {
  const auto scaled =
      kernel("scaled", [](In<f32, 2> x, In<i32, 1> offsets, In<i32, 1> first_tiles, Out<f32, 2> y) {
        for (auto [s, m, n] :
             grid(segments(offsets, x.rows()).by(x.cols()).numbered(first_tiles), 16, 32))
          y(m, n) = x(m, n) * (cast<f32>(s) + 1.0f);
      });
  const std::vector<i32> lengths{0, 0, 15, 16, 17, 0, 1, 100, 0};
  const auto offsets = offsets_of(lengths);
  std::vector<i32> tiles;
  for (const i32 n : lengths) tiles.push_back((n + 15) / 16);
  const Tensor x = integers({offsets.back(), 40}, DType::f32, 3),
               y = Tensor::full({offsets.back(), 40}, -77, DType::f32, GetParam());
  scaled(stream(), x, table(offsets), table(offsets_of(tiles)), y);
  auto want = x.to_doubles();
  for (std::size_t s = 0; s < lengths.size(); ++s)
    for (auto i = static_cast<std::size_t>(offsets[s]) * 40;
         i < static_cast<std::size_t>(offsets[s + 1]) * 40; ++i)
      want[i] *= static_cast<double>(s + 1);
  expect_equal(y, want);
}

/// W[s] = A^T G over the rows of segment s: both operands end with the segment, and later
/// rows are NaN.
TEST_P(Segments, ContractionsThatEnd) {
  for (const int bk : {16, 64}) {
    const auto gradient =
        kernel("gradient", [bk](In<bf16, 2> A, In<bf16, 2> G, In<i32, 1> offsets, Out<f32, 3> W) {
          for (auto [s, m, n] : grid(W, 1, 64, 64)) {
            Tile sum = zeros<f32>(64, 64);
            for (auto r : steps(offsets(s), offsets(s.shifted(1)), bk).bounded())
              sum = dot(A(r, m).T(), G(r, n), sum);
            W(s, m, n) = sum;
          }
        });
    const std::vector<i32> lengths{0, 3, 64, 65, 0, 1};
    const auto offsets = offsets_of(lengths);
    const std::int64_t rows = offsets.back() + 20;
    const Tensor A = integers({rows, 72}, DType::bf16, 1), G = integers({rows, 64}, DType::bf16, 2),
                 W = Tensor::full({6, 72, 64}, -77, DType::f32, GetParam());
    const auto a = A.to_doubles(), g = G.to_doubles();
    A.slice(0, offsets.back(), rows)
        .copy_from(Tensor::full({20, 72}, nan, DType::bf16, GetParam()));
    gradient(stream(), A, G, table(offsets), W);
    std::vector<double> want(6 * 72 * 64);
    for (std::size_t s = 0; s < lengths.size(); ++s)
      for (auto r = static_cast<std::size_t>(offsets[s]);
           r < static_cast<std::size_t>(offsets[s + 1]); ++r)
        for (std::size_t i = 0; i < 72; ++i)
          for (std::size_t j = 0; j < 64; ++j)
            want[(s * 72 + i) * 64 + j] += a[r * 72 + i] * g[r * 64 + j];
    expect_equal(W, want);
  }
}

/// Tensors that a kernel adds to: a tile reads no row of the next segment, which others write.
TEST_P(Segments, RowsThatAreAddedTo) {
  const auto add = kernel("add", [](In<i32, 1> offsets, InOut<f32, 2> y, InOut<f32, 1> z) {
    for (auto [s, m, n] : grid(segments(offsets, y.rows()).by(y.cols()), 16, 32)) {
      y(m, n) += cast<f32>(s.first() + 1);
      if_(n.first() == 0, [&] { z(m) = z(m) * 2.0f + 1.0f; });
    }
  });
  const auto offsets = offsets_of({5, 0, 20, 7});
  const std::int64_t rows = offsets.back() + 3;
  const Tensor y = Tensor::iota({rows, 40}, DType::f32, GetParam()),
               z = Tensor::iota({rows}, DType::f32, GetParam());
  add(stream(), table(offsets), y, z);
  std::vector<double> want_y, want_z;
  for (std::int64_t r = 0, s = 0; r < rows; ++r) {
    while (s < 4 && r >= offsets[static_cast<std::size_t>(s + 1)]) ++s;
    for (int c = 0; c < 40; ++c)
      want_y.push_back(static_cast<double>(r * 40 + c + (s < 4 ? s + 1 : 0)));
    want_z.push_back(static_cast<double>(s < 4 ? 2 * r + 1 : r));
  }
  EXPECT_EQ(y.to_doubles(), want_y);
  EXPECT_EQ(z.to_doubles(), want_z);
}

/// An index that ends: loads, stores, atomic operations and what is computed from its elements.
TEST_P(Segments, EndsOfIndices) {
  const auto ends = kernel("ends", [](In<f32, 1> x, In<i32, 1> end, InOut<f32, 1> y,
                                      InOut<i32, 1> counts, InOut<f32, 1> sums) {
    for (auto i : grid(rows(counts), 1)) {
      const Index part = slice(i.first() * 32, 32).until(fill_absent(end(i), 0));
      y(part) = x(part) + 1.0f;
      const Tile some = part.shifted(1).slice(2, 8).indices();
      counts(i) = sum(where(some >= 0, 1, 0));
      atomic_add(sums(slice(0, 32).until(end(i) - i.first() * 32)), x(part));
    }
  });
  const std::vector<i32> end{7, 32, 64, 140};
  const Tensor x = Tensor::iota({128}, DType::f32, GetParam()),
               y = Tensor::full({128}, -1, DType::f32, GetParam()),
               counts = Tensor::zeros({4}, DType::i32, GetParam()),
               sums = Tensor::zeros({32}, DType::f32, GetParam());
  ends(stream(), x, table(end), y, counts, sums);
  std::vector<double> want(128, -1), want_counts(4), want_sums(32);
  for (int p = 0; p < 4; ++p) {
    for (int j = 0; j < 32; ++j) {
      if (p * 32 + j >= end[p]) continue;
      want[p * 32 + j] = p * 32 + j + 1;
      want_sums[j] += p * 32 + j;
    }
    for (int j = 0; j < 8; ++j) want_counts[p] += p * 32 + 3 + j < end[p] + 1 ? 1 : 0;
  }
  expect_equal(y, want);
  expect_equal(counts, want_counts);
  expect_equal(sums, want_sums);
}

/// A kernel that may start before earlier ones end waits for them before it reads the offsets.
TEST_P(Segments, WaitsForTheOffsets) {
  const auto copy = kernel("dependent", [](In<f32, 1> x, In<i32, 1> offsets, Out<f32, 1> y) {
    for (auto [s, m] : grid(segments(offsets, x.dim(0)), 16)) {
      grid_dependency_wait();
      y(m) = x(m);
    }
  });
  const Tensor x = Tensor::iota({64}, DType::f32, GetParam()),
               y = Tensor::zeros({64}, DType::f32, GetParam());
  copy(stream(), x, table({0, 10, 64}), y);
  expect_equal(y, x.to_doubles());
  const std::string traced = copy.dump("trace");
  EXPECT_LT(traced.find("grid_dependency_wait"), traced.find("load_view")) << traced;
}

/// Offsets that descend, or that end after the rows, are found by the host's devices.
TEST_P(Segments, WrongOffsetsAreFound) {
  if (!GetParam().on_host()) return;
  const auto copy = kernel("copy", [](In<f32, 1> x, In<i32, 1> offsets, Out<f32, 1> y) {
    y.partial();
    for (auto [s, m] : grid(segments(offsets, x.dim(0)), 16)) y(m) = x(m);
  });
  const Tensor x = Tensor::iota({64}, DType::f32, GetParam()),
               y = Tensor::zeros({64}, DType::f32, GetParam());
  copy(stream(), x, table({0, 10, 64}), y);
  for (const std::vector<i32>& wrong : {std::vector<i32>{0, 40, 30}, {0, 10, 65}, {-1, 10, 64}})
    EXPECT_THROW(copy(stream(), x, table(wrong), y), ProgramError);
}

}  // namespace
}  // namespace tegula::segments_test
