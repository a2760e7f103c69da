// Sorts, top-k, ranks and histograms: every extent and number of warps, all types, ties, zeros of
// both signs, NaN, infinities, and elements that are absent at the end, at the start or by a mask.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::order_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

enum class Absent : std::uint8_t { Nothing, Front, Mask, All };

struct Case {
  int rows = 2, n = 1, k = 0, warps = 4;
  bool is_descending = false;
  Absent absent = Absent::Nothing;
  int ragged = 0;  ///< elements of the tile after the tensor's end

  int kept() const { return k == 0 ? n : k; }
  bool is_present(int i) const {
    if (i >= n - ragged || absent == Absent::All) return false;
    return absent == Absent::Front ? i >= n / 3 : absent == Absent::Mask ? i % 3 != 1 : true;
  }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.rows << " rows of " << c.n << " elements, k " << c.k << ", " << c.warps
             << " warps" << (c.is_descending ? ", descending" : "") << ", absent "
             << static_cast<int>(c.absent) << ", ragged " << c.ragged;
}

Tile with_absence(const Tile& t, const Case& c) {
  const int n = c.n;
  switch (c.absent) {
    case Absent::Nothing:
      return t;
    case Absent::Front:
      return crop(t, 1, -(n / 3), n);
    case Absent::Mask:
      return where(broadcast(expand(arange(n), 0), {c.rows, n}) % 3 != 1, t, crop(t, 1, 0, 0));
    case Absent::All:
      return crop(t, 1, 0, 0);
  }
  return t;
}

/// The value used for absent elements.
constexpr int kNothing = -7;

class Order : public test::OnDevice {
 protected:
  /// The numbers, of all rows or of one row that is repeated, are exact in T.
  template <class T, class Given>
  void check(const Case& c, std::vector<Given> numbers) const {
    SCOPED_TRACE(testing::Message() << name(dtype_of<T>) << " " << c);
    const auto order = c.is_descending ? Direction::descending : Direction::ascending;
    const auto k = kernel("order", [c, order](In<Given, 2> x, Out<T, 2> v, Out<i32, 2> at) {
      v.partial();
      for (auto r : grid(rows(v), c.rows)) {
        Tile given = cast<T>(x(r, slice(0, c.n)));
        if (c.n == 1) given = expand(given, 1);
        const Tile t = with_absence(given, c);
        const Sorted s = c.k == 0 ? sort_with_indices(t, 1, order) : topk(t, c.k, 1, order);
        const Tile row = broadcast(expand(arange(c.rows), 1), {c.rows, c.kept()}),
                   column = broadcast(expand(arange(c.kept()), 0), {c.rows, c.kept()});
        v(row, column) = s.values;
        at(row, column) = fill_absent(s.indices, kNothing);
      }
    });
    const std::vector<Given> line = numbers;
    while (static_cast<int>(numbers.size()) < c.rows * (c.n - c.ragged))
      numbers.insert(numbers.end(), line.begin(), line.end());
    const Dims in{c.rows, c.n - c.ragged}, out{c.rows, c.kept()};
    const Tensor v = Tensor::full(out, kNothing < 0 && !is_signed(dtype_of<T>) ? 1 : kNothing,
                                  dtype_of<T>, GetParam());
    const Tensor at = empty(out, DType::i32);
    k.with_plan("num_warps=" + std::to_string(c.warps))(
        stream(), Tensor::from(numbers, in, GetParam()), v, at);
    compare(c, std::vector<double>(numbers.begin(), numbers.end()), v.to_doubles(),
            at.to_doubles());
  }

  static void compare(const Case& c, const std::vector<double>& numbers,
                      const std::vector<double>& values, const std::vector<double>& at) {
    const int columns = c.n - c.ragged;
    for (int row = 0; row < c.rows; ++row) {
      const double* line = numbers.data() + row * columns;
      std::vector<int> order;
      for (int i = 0; i < c.n; ++i)
        if (c.is_present(i)) order.push_back(i);
      std::ranges::stable_sort(order, [&](int a, int b) {
        if (std::isnan(line[a]) || std::isnan(line[b]))
          return std::isnan(line[b]) && !std::isnan(line[a]);
        return c.is_descending ? line[b] < line[a] : line[a] < line[b];
      });
      for (int i = 0; i < c.kept(); ++i) {
        const auto to = static_cast<std::size_t>(row * c.kept() + i);
        const bool is_there = i < static_cast<int>(order.size());
        const int wanted = is_there ? order[static_cast<std::size_t>(i)] : kNothing;
        ASSERT_EQ(at[to], wanted) << "row " << row << ", place " << i;
        if (!is_there) continue;
        const double number = line[wanted];
        ASSERT_EQ(std::isnan(values[to]), std::isnan(number)) << "place " << i;
        if (!std::isnan(number)) {
          ASSERT_EQ(values[to], number) << "row " << row << ", place " << i;
        }
        if (number == 0) {
          ASSERT_FALSE(std::signbit(values[to])) << "place " << i;
        }
      }
    }
  }

  static std::vector<float> few_numbers(int count, int different) {
    std::vector<float> x;
    std::uint32_t state = 12345;
    for (int i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      x.push_back(static_cast<float>(static_cast<int>((state >> 16) % different) - different / 2));
    }
    return x;
  }

  /// Numbers in rows, three by three: one row has neighbours in f32, which the upper bits of a key
  /// do not tell apart; one such neighbours and, first in either order, one that is far from them;
  /// one numbers that are far from each other.
  static std::vector<float> close_numbers(int rows, int n) {
    std::vector<float> x = few_numbers(rows * n, 61);
    for (int i = 0; i < rows * n; ++i) {
      float& v = x[static_cast<std::size_t>(i)];
      if (i / n % 3 != 2) v = 1 + 0x1p-23f * (30 + v);
      if (i / n % 3 == 1 && i % n % 50 == 7) v = i % n < 50 ? 1e4f : -1e4f;
    }
    return x;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Order, testing::ValuesIn(test::devices()), test::device_name);

TEST_P(Order, AnyExtentByAnyNumberOfWarps) {
  for (int n : {1, 2, 3, 7, 31, 32, 33, 64, 96, 100, 128, 255, 1000})
    for (int warps : {1, 4, 8}) {
      const int rows = n <= 64 ? 3 : 2;
      check<f32>({.rows = rows, .n = n, .warps = warps}, few_numbers(rows * n, 50));
    }
  check<f32>({.n = 4096, .warps = 8, .is_descending = true}, few_numbers(4096, 3000));
  check<bf16>({.rows = 5, .n = 100, .warps = 12}, few_numbers(500, 50));
}

TEST_P(Order, AllTypesInBothDirections) {
  for (bool is_descending : {false, true}) {
    const Case c{.rows = 2, .n = 100, .is_descending = is_descending};
    const auto x = few_numbers(200, 30);
    check<f32>(c, x), check<f16>(c, x), check<bf16>(c, x), check<f8e4m3>(c, few_numbers(200, 16));
    check<f8e5m2>(c, few_numbers(200, 8)), check<f64>(c, x), check<i32>(c, x), check<i16>(c, x);
    check<i8>(c, x), check<i64>(c, x);
    std::vector<float> positive;
    for (float v : x) positive.push_back(v + 15);
    check<u8>(c, positive), check<u16>(c, positive), check<u32>(c, positive);
    check<u64>(c, positive);
  }
}

TEST_P(Order, ZerosNanAndInfinities) {
  const auto nan = static_cast<float>(kNan), inf = static_cast<float>(kInf);
  const std::vector<float> x{0.0f, -0.0f, nan,  1,    -inf, inf,  -0.0f, 0.0f, -nan, -1,   //
                             nan,  nan,   nan,  nan,  nan,  nan,  nan,   nan,  nan,  nan,  //
                             nan,  3,     3,    3,    3,    3,    3,     3,    3,    nan,  //
                             -inf, -inf,  -inf, -inf, -inf, -inf, -inf,  -inf, -inf, -0.0f};
  for (bool is_descending : {false, true})
    for (Absent absent : {Absent::Nothing, Absent::Mask}) {
      const Case c{.rows = 4, .n = 10, .is_descending = is_descending, .absent = absent};
      check<f32>(c, x), check<f16>(c, x), check<bf16>(c, x), check<f64>(c, x);
    }
}

TEST_P(Order, ExtremeIntegersPrecedeAbsentElements) {
  const std::vector<i32> x{INT32_MAX, INT32_MIN, 0, INT32_MAX, -1, INT32_MIN, 5};
  for (bool is_descending : {false, true})
    for (int ragged : {0, 2})
      check<i32>({.n = 7 + ragged, .is_descending = is_descending, .ragged = ragged}, x);
  const std::vector<i32> narrow{32767, -32768, 0, 32767, -1, -32768, 5};
  for (bool is_descending : {false, true})
    check<i16>({.n = 9, .is_descending = is_descending, .ragged = 2}, narrow);
}

TEST_P(Order, TopkOfAnyK) {
  for (const auto& [n, k] : {std::pair{1, 1},
                             {2, 1},
                             {7, 3},
                             {33, 32},
                             {64, 8},
                             {64, 63},
                             {100, 1},
                             {100, 100},
                             {255, 20},
                             {256, 8},
                             {1000, 7},
                             {1000, 999}})
    for (bool is_descending : {false, true}) {
      const int rows = n <= 256 ? 6 : 2;
      const Case c{.rows = rows, .n = n, .k = k, .is_descending = is_descending};
      check<f32>(c, few_numbers(rows * n, 40));
      check<bf16>(c, few_numbers(rows * n, 40));
    }
  check<f32>({.n = 4096, .k = 8, .warps = 8, .is_descending = true}, few_numbers(4096, 3000));
  check<f32>({.rows = 3, .n = 64, .k = 5, .is_descending = true}, std::vector<float>(192, 2.0f));
}

/// Lines that are sorted in shared memory: more rows than warps, absent elements, the best few, and
/// more threads than have keys.
TEST_P(Order, LongLines) {
  for (Absent absent : {Absent::Nothing, Absent::Mask}) {
    const Case c{.rows = 3, .n = 2000, .is_descending = true, .absent = absent, .ragged = 30};
    check<f32>(c, few_numbers(3 * 1970, 3000));
    check<i64>(c, few_numbers(3 * 1970, 40));
  }
  check<bf16>({.n = 4096, .warps = 8}, few_numbers(8192, 200));
  check<f64>({.n = 4096, .k = 20, .warps = 32, .is_descending = true}, few_numbers(8192, 3000));
  check<f32>({.n = 8192, .k = 1000, .warps = 16}, few_numbers(16384, 3000));
}

/// The indices of values that are not requested take no memory; NaN comes before absent elements.
TEST_P(Order, LongLinesOfValuesAlone) {
  constexpr int kPresent = 2000;
  const auto sorted = kernel("sorted", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto r : grid(y, 2048)) y(r) = sort(x(r));
  });
  std::vector<float> x = few_numbers(kPresent, 3000);
  for (std::size_t i = 0; i < x.size(); i += 100) x[i] = static_cast<float>(kNan);
  const Tensor y = empty({kPresent}, DType::f32);
  sorted(stream(), Tensor::from(x, {kPresent}, GetParam()), y);
  const auto numbers = std::ranges::partition(x, [](float v) { return !std::isnan(v); });
  std::sort(x.begin(), numbers.begin());
  const auto got = y.to_doubles();
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(std::isnan(got[i]), std::isnan(x[i])) << i;
    if (!std::isnan(x[i])) {
      ASSERT_EQ(got[i], x[i]) << i;
    }
  }
}

/// Companions of keys that are equal keep their order; those of absent keys are not stored.
TEST_P(Order, PayloadsInTheKeysOrder) {
  const auto by_key =
      kernel("by_key", [](In<i32, 2> keys, In<f32, 2> x, Out<f32, 2> y, Out<i64, 2> at) {
        for (auto r : grid(rows(y), 2)) {
          const Index c = slice(0, 48);
          const Tile place = broadcast(cast<i64>(arange(48)).expand(0), {2, 48});
          const auto sorted =
              sort_by(keys(r, c), std::array{x(r, c) * 2, place}, 1, Direction::descending);
          y(r, c) = sorted[0];
          at(r, c) = sorted[1];
        }
      });
  constexpr std::int64_t kRows = 5, kColumns = 40;
  const Tensor keys = Tensor::integers({kRows, kColumns}, DType::i32, -3, 4, 1, GetParam()),
               x = Tensor::normal({kRows, kColumns}, DType::f32, 0, 1, 2, GetParam());
  const Tensor y = empty({kRows, kColumns}, DType::f32), at = empty({kRows, kColumns}, DType::i64);
  by_key(stream(), keys, x, y, at);
  const auto key = keys.to_doubles(), value = x.to_doubles(), got = y.to_doubles(),
             place = at.to_doubles();
  for (std::size_t row = 0; row < kRows; ++row) {
    std::vector<std::size_t> order(kColumns);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(
        order, [&](auto a, auto b) { return key[row * kColumns + a] > key[row * kColumns + b]; });
    for (std::size_t i = 0; i < kColumns; ++i) {
      ASSERT_EQ(place[row * kColumns + i], static_cast<double>(order[i])) << row << ", " << i;
      ASSERT_EQ(got[row * kColumns + i], 2 * value[row * kColumns + order[i]]) << row << ", " << i;
    }
  }
}

TEST_P(Order, TopkOfNumbersThatDifferInTheirLastBits) {
  for (const auto& [n, k] : {std::pair{64, 1}, {64, 8}, {160, 6}, {256, 8}, {384, 8}, {512, 10}})
    for (int warps : {1, 4})
      for (bool is_descending : {false, true}) {
        const Case c{.rows = 6, .n = n, .k = k, .warps = warps, .is_descending = is_descending};
        check<f32>(c, close_numbers(c.rows, n));
      }
  for (Absent absent : {Absent::Front, Absent::Mask})
    for (int ragged : {0, 50})
      check<f32>({.rows = 5, .n = 128, .k = 8, .absent = absent, .ragged = ragged},
                 close_numbers(5, 128 - ragged));
}

/// The best number is so small, or so large, that numbers of the other sign, infinities and NaN are
/// only a few units in the last place away.
TEST_P(Order, TopkOfNumbersNearTheEndsOfTheRange) {
  const auto nan = static_cast<float>(kNan), inf = static_cast<float>(kInf);
  for (const int n : {32, 64, 128})
    for (const float best : {1e-36f, -1e-36f, 3e38f, -3e38f}) {
      std::vector<float> x(static_cast<std::size_t>(n), best < 0 ? 4 * best : best / 4);
      x[5] = best, x[7] = -1, x[9] = -inf, x[11] = nan;
      for (const bool is_descending : {false, true})
        check<f32>({.rows = 2, .n = n, .k = 4, .is_descending = is_descending}, x);
    }
}

/// Rows with fewer numbers than k: infinities precede NaN, and NaN precede absent elements.
TEST_P(Order, TopkOfNanAndInfinities) {
  const auto nan = static_cast<float>(kNan), inf = static_cast<float>(kInf);
  std::vector<float> x(4 * 128, nan);
  for (int i = 0; i < 4 * 128; ++i) {
    float& v = x[static_cast<std::size_t>(i)];
    if (i / 128 == 1 && i % 40 == 7) v = i % 80 == 7 ? inf : -inf;
    if (i / 128 == 2) v = i % 2 == 0 ? -inf : nan;
    if (i / 128 == 3) v = i % 16 == 3 ? -0.0f : i % 16 == 9 ? 0.0f : -1.0f;
  }
  for (bool is_descending : {false, true})
    for (Absent absent : {Absent::Nothing, Absent::Mask, Absent::All})
      for (int warps : {1, 4})
        check<f32>({.rows = 4,
                    .n = 128,
                    .k = 8,
                    .warps = warps,
                    .is_descending = is_descending,
                    .absent = absent},
                   x);
}

TEST_P(Order, AbsentElementsComeLast) {
  for (Absent absent : {Absent::Nothing, Absent::Front, Absent::Mask, Absent::All})
    for (int ragged : {0, 5, 39})
      for (int k : {0, 6}) {
        const Case c{.rows = 3,
                     .n = 40,
                     .k = k,
                     .is_descending = k != 0,
                     .absent = absent,
                     .ragged = ragged};
        const auto x = few_numbers(3 * (40 - ragged), 9);
        check<f32>(c, x), check<i16>(c, x);
      }
}

TEST_P(Order, AlongTheFirstDimension) {
  const auto k = kernel("columns", [](In<i32, 2> x, Out<i32, 2> y) {
    for (auto c : grid(cols(y), 4)) y(slice(0, 3), c) = topk(x(slice(0, 50), c), 3, 0).values;
  });
  const Tensor x = Tensor::integers({50, 6}, DType::i32, -100, 100, 1, GetParam());
  const Tensor y = empty({3, 6}, DType::i32);
  k(stream(), x, y);
  const auto in = x.to_doubles();
  std::vector<double> want(18);
  for (std::size_t j = 0; j < 6; ++j) {
    std::vector<double> column;
    for (std::size_t i = 0; i < 50; ++i) column.push_back(in[i * 6 + j]);
    std::ranges::sort(column, std::greater<>());
    for (std::size_t i = 0; i < 3; ++i) want[i * 6 + j] = column[i];
  }
  test::expect_equal(y, want);
}

// ---- counting -----------------------------------------------------------------------------------
struct Counting {
  int n = 1, bins = 1, warps = 4;
};

class KeyRanks : public test::OnDevice {
 protected:
  void check(const Counting& c, const std::vector<i32>& keys, bool has_mask = false) const {
    SCOPED_TRACE(testing::Message()
                 << c.n << " keys, " << c.bins << " bins, " << c.warps << " warps");
    const auto k = kernel(
        "ranks", [c, has_mask](In<i32, 1> x, Out<i32, 1> r, Out<i32, 1> counts, Out<i32, 1> again) {
          for ([[maybe_unused]] auto i : grid(x, 1 << 20)) {
            Tile t = x(slice(0, c.n));
            if (c.n == 1) t = expand(t, 0);
            if (has_mask) t = where(arange(c.n) % 3 != 1, t, crop(t, 0, 0, 0));
            const Ranks ranks = key_ranks(t, c.bins);
            r(arange(c.n)) = fill_absent(ranks.ranks, -2);
            counts(arange(c.bins)) = ranks.counts;
            again(arange(c.bins)) = histogram(t, c.bins);
          }
        });
    const auto count = static_cast<std::int64_t>(keys.size());
    const Tensor r = empty({count}, DType::i32), counts = empty({c.bins}, DType::i32),
                 again = empty({c.bins}, DType::i32);
    k.with_plan("num_warps=" + std::to_string(c.warps))(
        stream(), Tensor::from(keys, {count}, GetParam()), r, counts, again);
    std::vector<double> ranks, of_bins(static_cast<std::size_t>(c.bins));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (has_mask && i % 3 == 1)
        ranks.push_back(-2);
      else if (keys[i] < 0 || keys[i] >= c.bins)
        ranks.push_back(-1);
      else
        ranks.push_back(of_bins[static_cast<std::size_t>(keys[i])]++);
    }
    test::expect_equal(r, ranks);
    test::expect_equal(counts, of_bins);
    test::expect_equal(again, of_bins);
  }
  static std::vector<i32> random_keys(int count, int low, int high) {
    std::vector<i32> keys;
    std::uint32_t state = 99;
    for (int i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      keys.push_back(low + static_cast<i32>((state >> 8) % static_cast<std::uint32_t>(high - low)));
    }
    return keys;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, KeyRanks, testing::ValuesIn(test::devices()), test::device_name);

TEST_P(KeyRanks, AnyExtentBinsAndWarps) {
  for (int n : {1, 2, 3, 7, 31, 32, 33, 64, 96, 100, 128, 255, 1000, 4096})
    for (int warps : {1, 4, 8}) check({n, 33, warps}, random_keys(n, -2, 36));
  for (int bins : {1, 2, 31, 32, 33, 256, 4096})
    check({500, bins, 4}, random_keys(500, -1, bins + 1));
  check({300, 10, 12}, random_keys(300, 0, 10));
}

TEST_P(KeyRanks, AllToOneKeyAndNone) {
  check({1000, 7, 8}, std::vector<i32>(1000, 3));
  check({1000, 7, 8}, std::vector<i32>(1000, 7));
  check({1000, 7, 8}, std::vector<i32>(1000, -1));
}

TEST_P(KeyRanks, AbsentKeysAreInNoBin) {
  check({100, 5, 4}, random_keys(77, 0, 5));
  check({100, 5, 4}, random_keys(100, 0, 5), true);
  check({100, 5, 4}, random_keys(60, 0, 5), true);
}

TEST_P(KeyRanks, ATileOfAnotherShapeAndType) {
  const auto k = kernel("ranks", [](In<i64, 2> x, Out<i32, 2> y) {
    for (auto r : grid(rows(y), 8)) y(r, slice(0, 6)) = key_ranks(x(r, slice(0, 6)), 4).ranks;
  });
  std::vector<i64> keys;
  for (i64 i = 0; i < 48; ++i) keys.push_back(i % 7 == 0 ? (i64{1} << 32) + 1 : i % 5);
  const Tensor y = empty({8, 6}, DType::i32);
  k(stream(), Tensor::from(keys, {8, 6}, GetParam()), y);
  std::vector<double> want, of_bins(4);
  for (i64 key : keys) want.push_back(key > 3 ? -1 : of_bins[static_cast<std::size_t>(key)]++);
  test::expect_equal(y, want);
}

}  // namespace
}  // namespace tegula::order_test
