// Searches, weighted counts and compactions: alike on every device.
#include "tegula/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::search_test {
namespace {

class Search : public testing::TestWithParam<Device> {
 protected:
  Device device() const { return GetParam(); }
  template <class T>
  Tensor of(const std::vector<T>& values) const {
    return Tensor::from(values, {static_cast<std::int64_t>(values.size())}, device());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Search, testing::ValuesIn(test::devices()), test::device_name);

const float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<double> places(const std::vector<f32>& sorted, const std::vector<f32>& values,
                           bool is_left) {
  std::vector<double> out;
  for (const f32 v : values)
    out.push_back(static_cast<double>(std::ranges::count_if(sorted, [&](f32 e) {
      if (std::isnan(v)) return is_left ? !std::isnan(e) : true;
      return is_left ? e < v : e <= v;
    })));
  return out;
}

TEST_P(Search, InATileAndInMemory) {
  const auto find = kernel("find", [](In<f32, 1> sorted, In<f32, 2> values, Out<i32, 2> y) {
    for (auto r : grid(rows(values), 2)) {
      const Tile v = values(r, slice(0, 5)), line = sorted(slice(0, 100));
      y(r, slice(0, 5)) = searchsorted(line, v);
      y(r, slice(5, 5)) = searchsorted(line, v, Side::right);
      y(r, slice(10, 5)) = searchsorted(sorted, v);
      y(r, slice(15, 5)) = searchsorted(sorted, v, Side::right);
    }
  });
  std::vector<f32> values{-5, 0, 3, 3.5f, 1e9f, kNaN, 98, 99, 100, 2};
  for (const int length : {0, 1, 7, 64, 100}) {
    std::vector<f32> sorted;
    for (int i = 0; i < length; ++i) sorted.push_back(static_cast<f32>(i / 2 * 3));
    if (length == 7) sorted.back() = kNaN;
    const Tensor y = Tensor::empty({2, 20}, DType::i32, device());
    find(of(sorted), Tensor::from(values, {2, 5}, device()), y);
    const auto got = y.to_doubles();
    for (std::size_t row = 0; row < 2; ++row) {
      const std::vector<f32> mine(values.begin() + static_cast<std::ptrdiff_t>(row) * 5,
                                  values.begin() + static_cast<std::ptrdiff_t>(row) * 5 + 5);
      for (std::size_t way = 0; way < 4; ++way) {
        const auto first = got.begin() + static_cast<std::ptrdiff_t>(row * 20 + way * 5);
        EXPECT_EQ(std::vector<double>(first, first + 5), places(sorted, mine, way % 2 == 0))
            << "length " << length << ", way " << way;
      }
    }
  }
}

TEST_P(Search, OneNumber) {
  const auto find = kernel("find", [](In<i32, 1> sorted, Out<i32, 1> y) {
    for (auto i : grid(y, 1)) y(i) = searchsorted(sorted, cast<i32>(i.first()) * 10, Side::right);
  });
  const Tensor y = Tensor::empty({6}, DType::i32, device());
  find(of(std::vector<i32>{0, 5, 10, 10, 20, 41}), y);
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{1, 4, 5, 5, 5, 6}));
}

TEST_P(Search, WeightedCounts) {
  const auto count = kernel("count", [](In<i64, 1> keys, In<f32, 1> weights, In<i16, 1> numbers,
                                        Out<f32, 1> sums, Out<i16, 1> totals) {
    for (auto p : grid(GridSpace({1}), 1)) {
      const Index all_of_it = slice(p.first() * 0, 512), bins = slice(p.first() * 0, 40);
      sums(bins) = bincount(keys(all_of_it), weights(all_of_it), 40);
      totals(bins) = bincount(keys(all_of_it), numbers(all_of_it), 40);
    }
  });
  constexpr std::size_t kCount = 500;
  std::vector<i64> keys;
  std::vector<f32> weights, sums(40);
  std::vector<i16> numbers, totals(40);
  std::uint32_t state = 5;
  for (std::size_t i = 0; i < kCount; ++i) {
    state = state * 1664525u + 1013904223u;
    keys.push_back(static_cast<i64>(state >> 24) % 45 - 2);
    if (i == 17) keys.back() = i64{1} << 33;
    weights.push_back(static_cast<f32>(state % 1000) * 0.37f);
    numbers.push_back(static_cast<i16>(state % 200));
    if (keys.back() < 0 || keys.back() >= 40) continue;
    const auto k = static_cast<std::size_t>(keys.back());
    sums[k] += weights.back();
    totals[k] = static_cast<i16>(totals[k] + numbers.back());
  }
  const Tensor y = Tensor::empty({40}, DType::f32, device()),
               z = Tensor::empty({40}, DType::i16, device());
  count(of(keys), of(weights), of(numbers), y, z);
  const auto got = y.to_doubles();
  for (std::size_t k = 0; k < 40; ++k)
    EXPECT_NEAR(got[k], static_cast<double>(sums[k]), 1e-4 * std::abs(sums[k])) << k;
  EXPECT_EQ(z.to_doubles(), std::vector<double>(totals.begin(), totals.end()));
}

TEST_P(Search, ElementsKeptByACondition) {
  const auto keep = kernel("keep", [](In<f32, 2> x, Out<f32, 2> y, Out<i32, 1> counts) {
    for (auto r : grid(rows(x), 1)) {
      const Tile v = x(r, all);
      const auto [kept, count] = compact(v, v > 0);
      y(r, all) = fill_absent(kept, -1);
      counts(r) = count;
    }
  });
  const auto columns = kernel("columns", [](In<i32, 2> x, Out<i32, 2> y, Out<i32, 1> counts) {
    for (auto p : grid(GridSpace({1}), 1)) {
      (void)p;
      const Tile v = x(slice(0, 8), slice(0, 4));
      const auto [kept, count] = compact(v, v % 2 == 0, 0);
      y(slice(0, 8), slice(0, 4)) = fill_absent(kept, 99);
      counts(slice(0, 4)) = count;
    }
  });
  const Tensor x = Tensor::integers({9, 70}, DType::f32, -5, 5, 3, device()),
               y = Tensor::empty({9, 70}, DType::f32, device()),
               counts = Tensor::empty({9}, DType::i32, device());
  keep(x, y, counts);
  const auto given = x.to_doubles();
  std::vector<double> want, want_counts;
  for (std::size_t r = 0; r < 9; ++r) {
    const std::size_t before = want.size();
    for (std::size_t c = 0; c < 70; ++c)
      if (given[r * 70 + c] > 0) want.push_back(given[r * 70 + c]);
    want_counts.push_back(static_cast<double>(want.size() - before));
    want.resize(before + 70, -1);
  }
  EXPECT_EQ(y.to_doubles(), want);
  EXPECT_EQ(counts.to_doubles(), want_counts);

  const Tensor a = Tensor::iota({8, 4}, DType::i32, device()),
               b = Tensor::empty({8, 4}, DType::i32, device()),
               n = Tensor::empty({4}, DType::i32, device());
  columns(a, b, n);
  std::vector<double> in_columns(32, 99);
  for (std::size_t c = 0; c < 4; c += 2)
    for (std::size_t r = 0; r < 8; ++r) in_columns[r * 4 + c] = static_cast<double>(r * 4 + c);
  EXPECT_EQ(b.to_doubles(), in_columns);
  EXPECT_EQ(n.to_doubles(), (std::vector<double>{8, 0, 8, 0}));
}

/// A condition may hold of elements that the tile lacks: after its end, before its view, and
/// between others.
TEST_P(Search, AConditionOfElementsThatAreNotThere) {
  const auto keep =
      kernel("keep", [](In<i32, 1> x, In<i32, 1> taken, Out<i32, 2> y, Out<i32, 1> counts) {
        for (auto p : grid(GridSpace({1}), 1)) {
          (void)p;
          const Tile odd = arange(16) % 2 == 1;
          const Tile v = x(slice(0, 16)), shifted = x(slice(-4, 16));
          const Tile holes = where(taken(slice(0, 16)) == 0, v, crop(v, 0, 0, 0));
          int row = 0;
          for (const Tile& t : {v, shifted, holes}) {
            const auto [kept, count] = compact(t, odd);
            y(row, slice(0, 16)) = fill_absent(kept, -1);
            counts(row++) = count;
          }
        }
      });
  std::vector<i32> x(11), taken(16);
  for (int i = 0; i < 11; ++i) x[static_cast<std::size_t>(i)] = 100 + i;
  taken[3] = taken[7] = 1;
  const Tensor y = Tensor::empty({3, 16}, DType::i32, device()),
               counts = Tensor::empty({3}, DType::i32, device());
  keep(of(x), of(taken), y, counts);
  std::vector<double> want;
  const auto row = [&](std::vector<double> kept) {
    kept.resize(16, -1);
    want.insert(want.end(), kept.begin(), kept.end());
  };
  row({101, 103, 105, 107, 109});
  row({101, 103, 105, 107, 109});
  row({101, 105, 109});
  EXPECT_EQ(y.to_doubles(), want);
  EXPECT_EQ(counts.to_doubles(), (std::vector<double>{5, 5, 3}));
}

}  // namespace
}  // namespace tegula::search_test
