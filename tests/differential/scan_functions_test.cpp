// Scans and folds by functions that do not commute, over any extent, by one warp and by several:
// forward, reverse, exclusive, in segments, of ragged ends, front crops and masks.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"

namespace tegula::scan_functions_test {
namespace {

/// The map x -> a x + b of wrapping integers: composing two of them does not commute.
struct Affine {
  std::uint32_t a = 1, b = 0;
  friend bool operator==(const Affine&, const Affine&) = default;
};
/// First `f`, then `g`.
Affine then(Affine f, Affine g) { return {f.a * g.a, g.a * f.b + g.b}; }

using Pair = std::array<Tile, 2>;
Pair compose(const Pair& f, const Pair& g) { return {f[0] * g[0], g[0] * f[1] + g[1]}; }

enum class Absent : std::uint8_t { Nothing, End, Front, Mask, All };

struct Case {
  int n = 1, warps = 4;
  bool is_reverse = false, is_exclusive = false, has_starts = false;
  Absent absent = Absent::Nothing;

  bool is_present(int i) const {
    switch (absent) {
      case Absent::Nothing:
        return true;
      case Absent::End:
        return i < n - n / 3;
      case Absent::Front:
        return i >= n / 3;
      case Absent::Mask:
        return i % 3 != 1;
      case Absent::All:
        return false;
    }
    return false;
  }
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.n << " elements, " << c.warps << " warps" << (c.is_reverse ? ", reverse" : "")
             << (c.is_exclusive ? ", exclusive" : "") << (c.has_starts ? ", starts" : "")
             << ", absent " << static_cast<int>(c.absent);
}

bool starts_at(int row, int i) { return (i * 7 + row) % 11 == 0 || i == 0; }
std::uint32_t factor(int row, int i) { return static_cast<std::uint32_t>(2 * ((row + i) % 5) + 1); }
std::uint32_t term(int row, int i) { return static_cast<std::uint32_t>(i * i + row); }

/// Elements as they are, and which are there, of each kind of absence.
Tile with_absence(const Tile& t, const Case& c, int axis) {
  const int n = c.n;
  Tile at = arange(n);
  if (axis == 1) at = broadcast(expand(at, 0), {t.dim(0), n});
  switch (c.absent) {
    case Absent::Nothing:
      return t;
    case Absent::End:
      return crop(t, axis, 0, n - n / 3);
    case Absent::Front:
      return crop(t, axis, -(n / 3), n);
    case Absent::Mask:
      return where(at % 3 != 1, t, crop(t, axis, 0, 0));
    case Absent::All:
      return crop(t, axis, 0, 0);
  }
  return t;
}

class ScanFunctions : public test::OnDevice {
 protected:
  static constexpr int kRows = 3;

  /// Rows of [3, n] along the last axis: -1 where the result is absent.
  std::vector<std::int32_t> scanned(const Case& c) const {
    const int n = c.n;
    const auto k = kernel("scan", [c, n](In<i32, 2> a, In<i32, 2> b, In<i32, 2> s, Out<i32, 2> y) {
      for (auto r : grid(rows(y), kRows)) {
        const auto read = [&, columns = slice(0, n)](const In<i32, 2>& v) {
          return fill_absent(v(r, columns), 0)
              .reshape({kRows, n});  // a block of 1 has no dimension
        };
        ScanOptions o{.reverse = c.is_reverse, .exclusive = c.is_exclusive};
        if (c.has_starts) o.starts = read(s) != 0;
        const Pair in{with_absence(read(a), c, 1), read(b)};
        const Pair out = c.is_exclusive ? scan_from(std::array<Arg, 2>{1, 0}, in, 1, compose, o)
                                        : scan(in, 1, compose, o);
        const Tile result = fill_absent(out[1] + 3 * out[0], -1);
        y(r, slice(0, n)) = n == 1 ? result(all, 0) : result;
      }
    });
    std::vector<std::int32_t> a, b, s;
    for (int row = 0; row < kRows; ++row)
      for (int i = 0; i < n; ++i) {
        a.push_back(static_cast<std::int32_t>(factor(row, i)));
        b.push_back(static_cast<std::int32_t>(term(row, i)));
        s.push_back(starts_at(row, i) ? 1 : 0);
      }
    const Dims shape{kRows, n};
    const Tensor y = empty(shape, DType::i32);
    k.with_plan("num_warps=" + std::to_string(c.warps))(
        stream(), Tensor::from(a, shape, GetParam()), Tensor::from(b, shape, GetParam()),
        Tensor::from(s, shape, GetParam()), y);
    std::vector<std::int32_t> out;
    for (double v : y.to_doubles()) out.push_back(static_cast<std::int32_t>(v));
    return out;
  }

  static std::vector<std::int32_t> wanted(const Case& c) {
    std::vector<std::int32_t> out;
    for (int row = 0; row < kRows; ++row)
      for (int i = 0; i < c.n; ++i) {
        if (!c.is_present(i)) {
          out.push_back(-1);
          continue;
        }
        const Affine f = of_element(c, row, i);
        out.push_back(static_cast<std::int32_t>(f.b + 3 * f.a));
      }
    return out;
  }

  static Affine of_element(const Case& c, int row, int i) {
    Affine sum;
    const auto add = [&](int j) {
      if (c.is_present(j)) sum = then(sum, {factor(row, j), term(row, j)});
    };
    const auto begins = [&](int j) { return c.has_starts && c.is_present(j) && starts_at(row, j); };
    int first = i, last = i;
    if (c.is_reverse)
      while (last + 1 < c.n && !begins(last + 1)) ++last;
    else
      while (first > 0 && !begins(first)) --first;
    for (int j = first; j <= last; ++j)
      if (j != i || !c.is_exclusive) add(j);
    return sum;
  }

  void check(const Case& c) const {
    SCOPED_TRACE(testing::Message() << c);
    EXPECT_EQ(scanned(c), wanted(c));
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ScanFunctions, testing::ValuesIn(test::devices()),
                         test::device_name);

TEST_P(ScanFunctions, AnyExtentByAnyNumberOfWarps) {
  for (int n : {1, 2, 3, 7, 31, 32, 33, 64, 96, 100, 128, 255, 1000})
    for (int warps : {1, 4, 8}) check({.n = n, .warps = warps});
  check({.n = 4096, .warps = 8});
  check({.n = 257, .warps = 12});
}

TEST_P(ScanFunctions, DirectionsSegmentsAndExclusiveOnes) {
  for (int n : {1, 7, 32, 100, 300, 1000})
    for (int mode = 0; mode < 8; ++mode)
      check({.n = n,
             .warps = n > 128 ? 8 : 4,
             .is_reverse = (mode & 1) != 0,
             .is_exclusive = (mode & 2) != 0,
             .has_starts = (mode & 4) != 0});
}

TEST_P(ScanFunctions, AbsentElementsDoNotCount) {
  for (int n : {7, 100, 515})
    for (Absent absent : {Absent::End, Absent::Front, Absent::Mask, Absent::All})
      for (int mode = 0; mode < 8; ++mode)
        check({.n = n,
               .warps = 4,
               .is_reverse = (mode & 1) != 0,
               .is_exclusive = (mode & 2) != 0,
               .has_starts = (mode & 4) != 0,
               .absent = absent});
}

TEST_P(ScanFunctions, AlongTheFirstDimension) {
  const auto k = kernel("columns", [](In<i32, 2> x, Out<i32, 2> y, Out<i32, 2> z) {
    for (auto r : grid(rows(y), 100)) {
      y(r, all) = cumsum(x(r, all), 0, {.reverse = true});
      z(r, all) = cummin(x(r, all), 0, {.exclusive = true});
    }
  });
  const Tensor x = Tensor::integers({90, 5}, DType::i32, -50, 50, 7, GetParam());
  const Tensor y = empty({90, 5}, DType::i32), z = empty({90, 5}, DType::i32);
  k(stream(), x, y, z);
  const auto in = x.to_doubles();
  std::vector<double> sums(in.size()), least(in.size());
  for (std::size_t j = 0; j < 5; ++j) {
    double sum = 0, low = INT32_MAX;
    for (std::size_t i = 90; i-- > 0;) sums[i * 5 + j] = sum += in[i * 5 + j];
    for (std::size_t i = 0; i < 90; ++i) {
      least[i * 5 + j] = low;
      low = std::min(low, in[i * 5 + j]);
    }
  }
  test::expect_equal(y, sums);
  test::expect_equal(z, least);
}

TEST_P(ScanFunctions, NamedOnesBySeveralWarpsAndInSegments) {
  for (int n : {100, 1000, 4096}) {
    const auto k = kernel("line", [n](In<i32, 1> x, Out<i32, 1> y, Out<i32, 1> z) {
      for (auto i : grid(y, n)) {
        y(i) = cumsum(x(i), 0);
        z(i) = cumsum(x(i), 0, {.exclusive = true, .starts = i.indices() % 37 == 0});
      }
    });
    const Tensor x = Tensor::integers({n}, DType::i32, -9, 9, 3, GetParam());
    const Tensor y = empty({n}, DType::i32), z = empty({n}, DType::i32);
    k.with_plan("num_warps=8")(stream(), x, y, z);
    const auto in = x.to_doubles();
    std::vector<double> sums, parts;
    double sum = 0, part = 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      sums.push_back(sum += in[i]);
      if (i % 37 == 0) part = 0;
      parts.push_back(part);
      part += in[i];
    }
    test::expect_equal(y, sums);
    test::expect_equal(z, parts);
  }
}

/// The function of a fold commutes: the largest, and how often it is there.
TEST_P(ScanFunctions, FoldsTakeAnyExtent) {
  const auto most = [](const Pair& a, const Pair& b) {
    return Pair{max(a[0], b[0]), where(a[0] > b[0], a[1], where(b[0] > a[0], b[1], a[1] + b[1]))};
  };
  for (int n : {1, 3, 7, 31, 33, 96, 100, 255, 1000}) {
    SCOPED_TRACE(n);
    const auto k = kernel("fold", [most, n](In<i32, 2> x, Out<i32, 2> y) {
      for (auto r : grid(rows(y), 2)) {
        const Tile t = x(r, slice(0, n)).reshape({2, n});  // a block of 1 has no dimension
        const Pair p = reduce(Pair{t, t * 0 + 1}, 1, most);
        y(r, 0) = p[0];
        y(r, 1) = p[1];
      }
    });
    // One column less than the tile has.
    const std::int64_t columns = n == 1 ? 1 : n - 1;
    const Tensor x = Tensor::integers({4, columns}, DType::i32, -5, 5, 5, GetParam());
    const Tensor y = empty({4, 2}, DType::i32);
    k(stream(), x, y);
    const auto in = x.to_doubles();
    std::vector<double> want;
    for (std::int64_t row = 0; row < 4; ++row) {
      const auto first = in.begin() + row * columns, last = first + columns;
      const double largest = *std::max_element(first, last);
      want.push_back(largest);
      want.push_back(static_cast<double>(std::count(first, last, largest)));
    }
    test::expect_equal(y, want);
  }
}

}  // namespace
}  // namespace tegula::scan_functions_test
