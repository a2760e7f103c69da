// NaN in folds, on every available device: it never wins an extreme, and where there is no
// number the result is the identity and index 0.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::nan_folds_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

class NanFolds : public test::OnDevice {
 protected:
  template <class T>
  Tensor rows(const std::vector<std::vector<double>>& values) const {
    std::vector<T> list;
    for (const auto& row : values)
      for (double v : row) list.push_back(static_cast<T>(static_cast<float>(v)));
    return Tensor::from(list, GetParam()).reshape({std::ssize(values), std::ssize(values.front())});
  }
  static void expect(const Tensor& got, const std::vector<double>& want, const char* what) {
    const auto values = got.to_doubles();
    ASSERT_EQ(values.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_EQ(values[i], want[i]) << what << " " << i;
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, NanFolds, testing::ValuesIn(test::devices()), test::device_name);

struct Extremes {
  std::vector<double> largest, smallest, last, first;
};

/// Largest and smallest number of each row, and their first positions.
Extremes extremes(const std::vector<std::vector<double>>& values) {
  Extremes out;
  for (const auto& row : values) {
    double most = -kInf, least = kInf, at_most = 0, at_least = 0;
    bool found = false;
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (std::isnan(row[i])) continue;
      if (!found || row[i] > most) most = row[i], at_most = static_cast<double>(i);
      if (!found || row[i] < least) least = row[i], at_least = static_cast<double>(i);
      found = true;
    }
    out.largest.push_back(most), out.last.push_back(at_most);
    out.smallest.push_back(least), out.first.push_back(at_least);
  }
  return out;
}

std::vector<std::vector<double>> rows_of(std::size_t n) {
  std::vector<std::vector<double>> rows(6, std::vector<double>(n, kNan));
  for (std::size_t i = 0; i < n; ++i) {
    rows[1][i] = -kInf;                                           // a row of the identity alone
    if (i % 3 == 1) rows[2][i] = static_cast<double>(i % 7) - 3;  // some numbers
    if (i % 3 == 2) rows[4][i] = kInf;
  }
  rows[3][n - 1] = -kInf;  // the last one is the only number
  rows[5].assign(n, 2);    // all are equal
  return rows;
}

TEST_P(NanFolds, ExtremesAndTheirIndices) {
  for (const std::size_t n : {1u, 3u, 32u, 64u, 96u, 100u, 300u}) {
    SCOPED_TRACE(n);
    const auto fold =
        kernel("fold", [](In<f32, 2> x, Out<i32, 1> at_max, Out<i32, 1> at_min, Out<f32, 1> high,
                          Out<f32, 1> low, Out<f32, 1> most, Out<f32, 1> least) {
          for (auto i : grid(at_max, 2)) {
            at_max(i) = argmax(x(i, all), 1);
            auto [v, j] = min_and_argmin(x(i, all), 1);
            auto [w, k] = max_and_argmax(x(i, all), 1);
            at_min(i) = j;
            high(i) = w + zeros<f32>(2), low(i) = v;
            most(i) = max(x(i, all), axis(1)), least(i) = min(x(i, all), axis(1));
          }
        });
    const auto values = rows_of(n);
    const auto out = [&](DType d) { return empty({6}, d); };
    const Tensor at_max = out(DType::i32), at_min = out(DType::i32), high = out(DType::f32),
                 low = out(DType::f32), most = out(DType::f32), least = out(DType::f32);
    fold(stream(), rows<f32>(values), at_max, at_min, high, low, most, least);
    const Extremes want = extremes(values);
    expect(at_max, want.last, "argmax");
    expect(at_min, want.first, "argmin");
    expect(high, want.largest, "max with index");
    expect(low, want.smallest, "min with index");
    expect(most, want.largest, "max");
    expect(least, want.smallest, "min");
  }
}

/// Blocks of 64 of rows that end within the second one, and of halves.
TEST_P(NanFolds, RaggedBlocks) {
  const auto fold = kernel("fold", [](In<f16, 2> x, Out<i32, 2> at, Out<f16, 2> most) {
    for (auto [r, b] : grid({x.rows(), 2}, 1, 1))
      for (auto c : steps(b.first() * 64, b.first() * 64 + 64, 64)) {
        at(r, b) = argmax(x(r, c), 0);
        most(r, b) = max(x(r, c), axis(0));
      }
  });
  const auto values = rows_of(100);
  const Tensor at = empty({6, 2}, DType::i32), most = empty({6, 2}, DType::f16);
  fold(stream(), rows<f16>(values), at, most);
  std::vector<double> want_at, want_most;
  for (const auto& row : values)
    for (const auto& part : {std::vector<double>(row.begin(), row.begin() + 64),
                             std::vector<double>(row.begin() + 64, row.end())}) {
      const Extremes one = extremes({part});
      want_at.push_back(one.last[0]), want_most.push_back(one.largest[0]);
    }
  expect(at, want_at, "argmax");
  expect(most, want_most, "max");
}

/// Integers have no value that every element exceeds; elements before the view are not there
/// nevertheless.
template <class T>
void expect_place_behind_the_front(const Stream& stream, Device device) {
  const auto fold = kernel("fold", [](In<T, 2> x, In<i32, 1> skipped, Out<i32, 2> at) {
    for (auto r : grid(rows(x), 1)) {
      const Tile v = x(r, slice(-3, 12)), w = x(r, slice(0, 12));
      const Tile later = where(skipped(slice(0, 12)) == 0, w, crop(w, 0, 0, 0));
      at(r, 0) = argmax(v, 0);
      at(r, 1) = argmin(v, 0);
      at(r, 2) = max_and_argmax(later, 0).second;
      at(r, 3) = argmin(crop(w, 0, -20, 12), 0);  // nothing is left
    }
  });
  using Limits = std::numeric_limits<T>;
  std::vector<T> values;
  for (const T v : {Limits::lowest(), Limits::max(), static_cast<T>(1)})
    values.insert(values.end(), 5, v);
  std::vector<i32> skipped(12);
  skipped[0] = skipped[1] = 1;
  const Tensor at = Tensor::empty({3, 4}, DType::i32, device);
  fold(stream, Tensor::from(std::span<const T>(values), {3, 5}, device),
       Tensor::from(skipped, device), at);
  EXPECT_EQ(at.to_doubles(), (std::vector<double>{3, 3, 2, 0, 3, 3, 2, 0, 3, 3, 2, 0}))
      << name(dtype_of<T>);
}

TEST_P(NanFolds, IntegerIndicesAfterAnAbsentPrefix) {
  expect_place_behind_the_front<i8>(stream(), GetParam());
  expect_place_behind_the_front<u8>(stream(), GetParam());
  expect_place_behind_the_front<i32>(stream(), GetParam());
  expect_place_behind_the_front<u64>(stream(), GetParam());
  expect_place_behind_the_front<f32>(stream(), GetParam());
}

/// The first value of a running maximum may be the only number of a step.
TEST_P(NanFolds, RunningMaxima) {
  const auto run =
      kernel("run", [](In<f32, 2> x, Out<f32, 1> carried, Out<f32, 2> so_far, Out<f32, 2> before) {
        for (auto r : grid(carried, 1)) {
          Tile top = full<f32>(-std::numeric_limits<float>::infinity());
          for (auto c : steps(128, 64)) top = max(top, max(x(r, c), axis(0)));
          carried(r) = top;
          so_far(r, all) = cummax(x(r, all), 0);
          before(r, all) = cummax(x(r, all), 0, {.reverse = true, .exclusive = true});
        }
      });
  const auto values = rows_of(128);
  const Tensor carried = empty({6}, DType::f32), so_far = empty({6, 128}, DType::f32),
               before = empty({6, 128}, DType::f32);
  run(stream(), rows<f32>(values), carried, so_far, before);
  expect(carried, extremes(values).largest, "carried");
  std::vector<double> want, behind;
  for (const auto& row : values) {
    double top = -kInf;
    for (double v : row) want.push_back(top = std::fmax(top, v));
    std::vector<double> reversed;
    top = -kInf;
    for (std::size_t i = row.size(); i-- > 0;) {
      reversed.push_back(top);
      top = std::fmax(top, row[i]);
    }
    behind.insert(behind.end(), reversed.rbegin(), reversed.rend());
  }
  expect(so_far, want, "cummax");
  expect(before, behind, "cummax behind");
}

template <Element T>
auto orders_of_bytes() {
  return kernel("bytes", [](In<T, 2> x, Out<i32, 1> at, Out<T, 1> most, Out<T, 1> least,
                            Out<T, 2> so_far, Out<T, 2> halves, Out<f32, 2> below) {
    for (auto i : grid(at, 2)) {
      const Tile v = x(i, all);
      at(i) = argmax(v, 1);
      most(i) = max(v, axis(1)), least(i) = min(v, axis(1));
      so_far(i, all) = cummax(v, 1);
      halves(i, all) = max(v, 0.5f);
      below(i, all) = where(v < 1, 1.0f, 0.0f);
    }
  });
}

/// Floats of 8 bits are compared as numbers; conversions to them saturate, and those of four
/// exponent bits have no infinity, not even for the extreme of nothing.
TEST_P(NanFolds, EightBitFloats) {
  const auto check = [&]<class T>(T) {
    constexpr DType kType = dtype_of<T>;
    SCOPED_TRACE(std::string(name(kType)));
    const double limit = kType == DType::f8e4m3 ? 448 : 57344,
                 nothing = kType == DType::f8e4m3 ? 448 : kInf;  // the identity
    const auto held = [&](double v) { return std::isnan(v) ? v : std::clamp(v, -limit, limit); };
    auto values = rows_of(48);
    for (auto& row : values)
      for (double& v : row) v = held(v);
    const Tensor at = empty({6}, DType::i32), most = empty({6}, kType), least = empty({6}, kType),
                 so_far = empty({6, 48}, kType), halves = empty({6, 48}, kType),
                 below = empty({6, 48}, DType::f32);
    orders_of_bytes<T>()(stream(), rows<T>(values), at, most, least, so_far, halves, below);
    Extremes want = extremes(values);
    for (double& v : want.largest) v = std::max(v, -nothing);
    for (double& v : want.smallest) v = std::min(v, nothing);
    std::vector<double> running, kept, less;
    for (const auto& row : values) {
      double top = -nothing;
      for (const double v : row) {
        running.push_back(top = std::fmax(top, v));
        kept.push_back(std::fmax(v, 0.5));
        less.push_back(v < 1 ? 1 : 0);
      }
    }
    expect(at, want.last, "argmax");
    expect(most, want.largest, "max");
    expect(least, want.smallest, "min");
    expect(so_far, running, "cummax");
    expect(halves, kept, "max with a number");
    expect(below, less, "less");
  };
  check(f8e4m3{});
  check(f8e5m2{});
}

}  // namespace
}  // namespace tegula::nan_folds_test
