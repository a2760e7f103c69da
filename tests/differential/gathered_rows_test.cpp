// Index tiles beside boxes: rows that are gathered, scattered and added to, on every device that is
// here, against host arithmetic.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::gathered_rows_test {
namespace {

class GatheredRows : public testing::TestWithParam<Device> {
 protected:
  Tensor integers(const Dims& shape, DType type, std::uint64_t seed) const {
    return Tensor::integers(shape, type, -4, 4, seed, GetParam());
  }
  Tensor filled(const Dims& shape, DType type = DType::f32) const {
    return Tensor::full(shape, -77, type, GetParam());
  }
  template <class T>
  Tensor table(const std::vector<T>& values) const {
    return Tensor::from(values, GetParam());
  }
  Stream stream() const { return Stream(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, GatheredRows, testing::ValuesIn(test::devices()),
                         test::device_name);

void expect_equal(const Tensor& got, const std::vector<double>& want) {
  const auto values = got.to_doubles();
  ASSERT_EQ(values.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_EQ(values[i], want[i]) << "element " << i;
}

/// Some of the `n` positions are repeated, some are outside `rows`, some are -1.
std::vector<i32> places(int n, int rows) {
  std::vector<i32> all;
  for (int i = 0; i < n; ++i)
    all.push_back(i % 9 == 4 ? -1 : i % 11 == 7 ? rows + i : (i * 7) % rows);
  return all;
}

/// Rows of 2 to 64 bytes and of strange lengths; a base that is aligned to its elements only.
TEST_P(GatheredRows, EveryWidth) {
  const auto gather = kernel("gather", [](In<bf16, 2> x, In<i32, 1> rows, Out<bf16, 2> y) {
    for (auto [i, c] : grid(y, 16, 32)) y(i, c) = x(rows(i), c);
  });
  const auto where_to = places(50, 40);
  for (const std::int64_t columns : {1, 3, 8, 24, 32, 33, 64, 100})
    for (const std::int64_t skipped : {0, 1}) {
      SCOPED_TRACE(testing::Message() << columns << " columns from " << skipped);
      const Tensor x = integers({40, columns + skipped}, DType::bf16, 1)
                           .slice(1, skipped, columns + skipped),
                   y = filled({50, columns}, DType::bf16);
      gather(stream(), x, table(where_to), y);
      const auto from = x.to_doubles();
      std::vector<double> want;
      for (const i32 r : where_to)
        for (std::int64_t c = 0; c < columns; ++c)
          want.push_back(r < 0 || r >= 40 ? 0 : from[r * columns + c]);
      expect_equal(y, want);
    }
}

/// Whole 16-byte pieces of a row.
TEST_P(GatheredRows, ByWidePieces) {
  if (GetParam().kind == DeviceKind::cpu) return;
  const auto gather = kernel("wide", [](In<f32, 2> x, In<i32, 1> rows, Out<f32, 2> y) {
    for (auto [i, c] : grid(y, 32, 64)) y(i, c) = x(rows(i), c) + 1.0f;
  });
  const Tensor y = filled({64, 128});
  gather(stream(), integers({40, 128}, DType::f32, 1), table(places(64, 40)), y);
  const std::string said = gather.dump("optimize");
  EXPECT_NE(said.find("ld_global"), std::string::npos);
  EXPECT_NE(said.find("width = 4"), std::string::npos) << said;
}

/// Rows that are stored and added to elsewhere; rows that the tile lacks go nowhere.
TEST_P(GatheredRows, ScatteredAndAdded) {
  const auto scatter = kernel("scatter", [](In<f32, 2> x, In<i32, 1> rows, InOut<f32, 2> y,
                                            InOut<i32, 2> z, InOut<i32, 2> old) {
    for (auto [i, c] : grid(x, 16, 32)) {
      const Tile to = rows(i), t = x(i, c);
      y(to, c) = t;
      old(i, c) = atomic_add(z(to, c), cast<i32>(t));
      atomic_max(z(to + 0, c), cast<i32>(t) - 100);
    }
  });
  // No place twice: what is stored, and what was there before, is one thing.
  std::vector<i32> to(70);
  std::iota(to.begin(), to.end(), 0);
  for (auto& r : to) r = r % 10 == 3 ? -1 : r % 10 == 5 ? 90 + r : (r * 13) % 80;
  const Tensor x = integers({67, 40}, DType::f32, 1), y = filled({80, 40}),
               z = filled({80, 40}, DType::i32), old = filled({67, 40}, DType::i32);
  scatter(stream(), x, table(to), y, z, old);
  const auto from = x.to_doubles();
  std::vector<double> want_y(80 * 40, -77), want_z(80 * 40, -77), want_old(67 * 40, 0);
  for (int i = 0; i < 67; ++i)
    for (int c = 0; c < 40; ++c) {
      if (to[i] < 0 || to[i] >= 80) continue;
      want_y[to[i] * 40 + c] = from[i * 40 + c];
      want_old[i * 40 + c] = -77;
      want_z[to[i] * 40 + c] = std::max(-77 + from[i * 40 + c], from[i * 40 + c] - 100);
    }
  expect_equal(y, want_y);
  expect_equal(z, want_z);
  expect_equal(old, want_old);
}

/// Sums of rows that many rows go to.
TEST_P(GatheredRows, AddedToTheSame) {
  const auto add = kernel("add", [](In<f32, 2> x, In<i32, 1> rows, InOut<f32, 2> y) {
    for (auto [i, c] : grid(x, 32, 32)) atomic_add(y(rows(i), c), x(i, c));
  });
  const auto to = places(100, 7);
  const Tensor x = integers({100, 48}, DType::f32, 1),
               y = Tensor::zeros({7, 48}, DType::f32, GetParam());
  add(stream(), x, table(to), y);
  const auto from = x.to_doubles();
  std::vector<double> want(7 * 48);
  for (int i = 0; i < 100; ++i)
    for (int c = 0; c < 48; ++c)
      if (to[i] >= 0 && to[i] < 7) want[to[i] * 48 + c] += from[i * 48 + c];
  expect_equal(y, want);
}

/// Several index tiles meet pointwise; boxes and scalars go before, between and behind; places of
/// two dimensions; 64-bit places far outside.
TEST_P(GatheredRows, SeveralDimensions) {
  const auto pick = kernel(
      "pick", [](In<i32, 4> x, In<i64, 2> rows, In<i32, 1> planes, Out<i32, 3> y, Out<i32, 3> w) {
        for (auto i : grid(GridSpace({planes.dim(0)}), 4)) {
          // One row of another plane for each of [4, 8] places; [4, 8, 5].
          y(i, slice(0, 8), slice(0, 5)) = x(1, rows(i, slice(0, 8)), slice(2, 5), 0);
          // A box, two index tiles, a box; [2, 4, 3].
          w(slice(0, 2), i, slice(0, 3)) = x(slice(0, 2), planes(i), planes(i) + 1, slice(0, 3));
        }
      });
  std::vector<i64> rows;
  for (i64 i = 0; i < 64; ++i)
    rows.push_back(i % 7 == 3 ? (i64{1} << 32) + 1 : i % 7 == 4 ? -(i64{1} << 32) : i % 6);
  const std::vector<i32> planes{0, 5, 2, 9, 3, -1, 1, 4};
  const Tensor x = Tensor::iota({3, 6, 7, 3}, DType::i32, GetParam()),
               y = filled({8, 8, 5}, DType::i32), w = filled({2, 8, 3}, DType::i32);
  pick(stream(), x, Tensor::from(rows, {8, 8}, GetParam()), table(planes), y, w);
  const auto at = [](i64 a, i64 b, i64 c, i64 d) {
    const bool is_inside = a >= 0 && a < 3 && b >= 0 && b < 6 && c >= 0 && c < 7 && d < 3;
    return is_inside ? static_cast<double>(((a * 6 + b) * 7 + c) * 3 + d) : 0.0;
  };
  std::vector<double> want_y, want_w;
  for (const i64 r : rows)
    for (i64 c = 0; c < 5; ++c) want_y.push_back(at(1, r, 2 + c, 0));
  for (i64 a = 0; a < 2; ++a)
    for (const i64 p : planes)
      for (i64 d = 0; d < 3; ++d) want_w.push_back(at(a, p, p + 1, d));
  expect_equal(y, want_y);
  expect_equal(w, want_w);
}

/// Rows of A that an index tile selects: copies by cp.async run ahead; the results are scattered.
TEST_P(GatheredRows, OperandsOfDots) {
  for (const int bm : {64, 128}) {
    const auto product = kernel("gathered", [bm](In<bf16, 2> A, In<bf16, 2> B, In<i32, 1> from,
                                                 In<i32, 1> to, InOut<f32, 2> C) {
      for (auto [m, n] : grid({from.dim(0), B.cols()}, bm, 64)) {
        const Tile rows = from(m);
        Tile sum = zeros<f32>(bm, 64);
        for (auto k : steps(A.cols(), 32)) sum = dot(A(rows, k), B(k, n), sum);
        C(to(m), n) = sum;
      }
    });
    const auto from = places(150, 90);
    std::vector<i32> to(150);
    for (int i = 0; i < 150; ++i) to[i] = i % 13 == 5 ? -1 : (i * 7) % 150;
    const Tensor A = integers({90, 72}, DType::bf16, 1), B = integers({72, 80}, DType::bf16, 2),
                 C = filled({150, 80});
    product(stream(), A, B, table(from), table(to), C);
    const auto a = A.to_doubles(), b = B.to_doubles();
    std::vector<double> want(150 * 80, -77);
    for (int i = 0; i < 150; ++i)
      for (int j = 0; j < 80 && to[i] >= 0; ++j) {
        double sum = 0;
        for (int k = 0; k < 72 && from[i] >= 0 && from[i] < 90; ++k)
          sum += a[from[i] * 72 + k] * b[k * 80 + j];
        want[to[i] * 80 + j] = sum;
      }
    expect_equal(C, want);
    if (GetParam().kind == DeviceKind::cpu) continue;
    const std::string said = product.explain();
    EXPECT_NE(said.find("pipelined by cp.async"), std::string::npos) << said;
  }
}

/// Rows along the contraction, of places that the loop reads.
TEST_P(GatheredRows, AlongTheContraction) {
  const auto gradient =
      kernel("gradient", [](In<bf16, 2> A, In<bf16, 2> G, In<i32, 1> rows, Out<f32, 2> W) {
        for (auto [m, n] : grid(W, 32, 32)) {
          Tile sum = zeros<f32>(32, 32);
          for (auto r : steps(rows.dim(0), 32)) sum = dot(A(rows(r), m).T(), G(r, n), sum);
          W(m, n) = sum;
        }
      });
  const auto from = places(75, 60);
  const Tensor A = integers({60, 40}, DType::bf16, 1), G = integers({75, 32}, DType::bf16, 2),
               W = filled({40, 32});
  gradient(stream(), A, G, table(from), W);
  const auto a = A.to_doubles(), g = G.to_doubles();
  std::vector<double> want(40 * 32);
  for (int r = 0; r < 75; ++r)
    for (int i = 0; i < 40 && from[r] >= 0 && from[r] < 60; ++i)
      for (int j = 0; j < 32; ++j) want[i * 32 + j] += a[from[r] * 40 + i] * g[r * 32 + j];
  expect_equal(W, want);
}

/// Scattered rows are gathered again: the order of the program holds.
TEST_P(GatheredRows, ScatterThenGather) {
  const auto turn = kernel(
      "turn", [](In<f32, 2> x, In<i32, 1> there, In<i32, 1> back, InOut<f32, 2> y, Out<f32, 2> z) {
        for (auto p : grid(GridSpace({1}), 1)) {
          const Index all_rows = slice(p.first(), 64), c = slice(0, 32);
          y(there(all_rows), c) = x(all_rows, c);
          z(all_rows, c) = y(back(all_rows), c) * 2.0f;
        }
      });
  std::vector<i32> there, back;
  for (int i = 0; i < 64; ++i) there.push_back((i * 5 + 3) % 64), back.push_back(63 - i);
  const Tensor x = integers({64, 32}, DType::f32, 1), y = filled({64, 32}), z = filled({64, 32});
  turn(stream(), x, table(there), table(back), y, z);
  const auto from = x.to_doubles();
  std::vector<double> middle(64 * 32), want(64 * 32);
  for (int i = 0; i < 64 * 32; ++i) middle[there[i / 32] * 32 + i % 32] = from[i];
  for (int i = 0; i < 64 * 32; ++i) want[i] = 2 * middle[back[i / 32] * 32 + i % 32];
  expect_equal(z, want);
}

}  // namespace
}  // namespace tegula::gathered_rows_test
