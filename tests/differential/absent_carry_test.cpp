// Loop carries where blocks are ragged, or end in some steps (docs/language/absence.md): sums,
// recurrences, maxima, convolutions; and paddings by `where`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::test::absent_carry_test {
namespace {

class AbsentCarry : public testing::TestWithParam<Device> {
 protected:
  Device device = GetParam();
  Tensor untouched(const Dims& shape) const { return Tensor::full(shape, -7, DType::f32, device); }
};
INSTANTIATE_TEST_SUITE_P(Devices, AbsentCarry, testing::ValuesIn(devices()), device_name);

/// Triton's layer norm as its tutorial has it.
TEST_P(AbsentCarry, SumsRaggedBlocks) {
  for (const bool assigns : {true, false}) {
    const auto mean = kernel("mean", [assigns](In<f32, 2> x, Out<f32, 1> y, Out<f32, 1> var) {
      for (auto r : grid(y, 1)) {
        auto acc = zeros<f32>(64), squares = zeros<f32>(64);
        for (auto c : steps(x.cols(), 64)) {
          if (assigns)
            acc += x(r, c);
          else
            acc = acc + x(r, c);
        }
        const Tile m = sum(acc) / cast<f32>(x.cols());
        for (auto c : steps(x.cols(), 64)) {
          const Tile d = x(r, c) - m;
          if (assigns)
            squares += d * d;
          else
            squares = squares + d * d;
        }
        y(r) = m;
        var(r) = sum(squares) / cast<f32>(x.cols());
      }
    });
    for (const int columns : {300, 64, 63, 1}) {
      SCOPED_TRACE(columns);
      const Tensor y = untouched({3}), var = untouched({3});
      mean(Stream(device), Tensor::iota({3, columns}, DType::f32, device), y, var);
      const double n = columns;
      for (std::size_t r = 0; r < 3; ++r) {
        EXPECT_FLOAT_EQ(y.to_doubles()[r], static_cast<double>(r) * n + (n - 1) / 2);
        EXPECT_NEAR(var.to_doubles()[r], (n * n - 1) / 12, 1e-3 * n * n);
      }
    }
  }
}

/// Rows beyond those of `a` are none of the sum, whatever its columns are.
TEST_P(AbsentCarry, CarryLacksElementsAbsentInEveryIteration) {
  const auto k = kernel("rows", [](In<f32, 2> a, Out<f32, 2> y) {
    y.partial();
    for (auto m : grid(rows(y), 8)) {
      auto acc = zeros<f32>(8, 16);
      for (auto c : steps(a.cols(), 16)) acc = acc + a(m, c);
      y(m, slice(0, 16)) = acc;
    }
  });
  for (const int columns : {32, 40}) {
    const Tensor y = untouched({16, 16});
    k(Stream(device), Tensor::full({5, columns}, 1, DType::f32, device), y);
    const std::vector<double> got = y.to_doubles();
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i], i / 16 >= 5 ? -7 : columns == 40 && i % 16 < 8 ? 3 : 2) << i;
  }
}

/// The same rows, though the kernel computes in each step where they begin.
TEST_P(AbsentCarry, CarryIsAbsentIfEveryIterationComputesItSo) {
  const auto k = kernel("rows", [](In<f32, 2> a, Scalar<i32> half, Out<f32, 2> y) {
    y.partial();
    for (auto m : grid(rows(y), 8)) {
      auto acc = zeros<f32>(8, 16);
      for (auto c : steps(a.cols(), 16))
        acc = acc * 2.0f + a(slice(m.first() + half.value() * 2, 8), c);
      y(m, slice(0, 16)) = acc;
    }
  });
  const Tensor y = untouched({8, 16});
  k(Stream(device), Tensor::full({7, 20}, 1, DType::f32, device), 1, y);
  const std::vector<double> got = y.to_doubles();
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_EQ(got[i], i / 16 >= 5 ? -7 : i % 16 < 4 ? 3 : 1) << i;
}

enum class Facts : std::uint8_t { None, Named, Both, Equal, EqualInGrid };

/// s = a * s + b, where `a` ends before `h` does: s stays as it is, and is not stored.
void expect_recurrence(Device device, Facts facts, int rows_of_a) {
  const int rows = 7, columns = 10;
  auto k =
      kernel("recurrence", [facts](In<f32, 2> a, In<f32, 2> b, Out<f32, 2> h, Out<f32, 1> last) {
        h.partial();
        const auto equal = [&] {
          assume(a.rows() == h.rows());
          assume(b.rows() == h.rows());
        };
        if (facts == Facts::Equal) equal();
        for (auto d : grid(cols(h), 8)) {
          if (facts == Facts::EqualInGrid) equal();
          auto s = zeros<f32>(8);
          for (auto t : steps(h.rows(), 1)) {
            if (facts == Facts::Both) assume(t.first() < a.rows() && t.first() < b.rows());
            s = a(t, d) * s + b(t, d);
            h(t, d) = s;
          }
          last(d) = s;
        }
      });
  if (facts == Facts::Named) k = k.named("a[T, D]", "b[T, D]", "h[T, D]", "last[D]");
  const Tensor a = Tensor::full({rows_of_a, columns}, 2, DType::f32, device),
               b = Tensor::full({rows, columns}, 1, DType::f32, device),
               h = Tensor::full({rows, columns}, -7, DType::f32, device),
               last = Tensor::full({columns}, -7, DType::f32, device);
  k(Stream(device), a, b, h, last);
  double s = 0;
  for (int t = 0; t < rows; ++t) {
    if (t < rows_of_a) s = 2 * s + 1;
    for (int d = 0; d < columns; ++d)
      EXPECT_EQ(h.to_doubles()[static_cast<std::size_t>(t * columns + d)],
                t < rows_of_a ? s : -7.0);
  }
  EXPECT_EQ(last.to_doubles(), std::vector<double>(columns, s));
}

TEST_P(AbsentCarry, FreezesInStepsThatLackIt) {
  expect_recurrence(device, Facts::None, 7);
  expect_recurrence(device, Facts::None, 4);
}
TEST_P(AbsentCarry, KnowsEqualExtents) {
  for (const Facts facts : {Facts::Named, Facts::Both, Facts::Equal, Facts::EqualInGrid})
    expect_recurrence(device, facts, 7);
}

TEST_P(AbsentCarry, KnowsMinimaOfExtents) {
  const auto k = kernel("first", [](In<f32, 2> a, Out<f32, 2> h) {
    for (auto d : grid(cols(h), 8)) {
      auto s = full<f32>(1.0f, 8);
      for (auto t : steps(min(a.rows(), 100), 1)) {
        s = a(t, d) * s;
        h(t, d) = s;
      }
    }
  });
  const Tensor h = untouched({5, 10});
  k(Stream(device), Tensor::full({5, 10}, 2, DType::f32, device), h);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(h.to_doubles()[i], std::pow(2.0, 1 + i / 10));
}

/// Taps past the border add nothing, and maxima and products do not change there.
TEST_P(AbsentCarry, SkipsTapsPastTheBorder) {
  const auto k = kernel("taps", [](In<f32, 1> x, Out<f32, 1> sums, Out<f32, 1> most) {
    for (auto i : grid(sums, 16)) {
      auto acc = zeros<f32>(16), top = full<f32>(-100.0f, 16);
      for (auto tap : steps(5, 1)) {
        const Tile at = x(i.shifted(tap.first() - 2));
        acc = acc + at;
        top = max(top, at);
      }
      sums(i) = acc;
      most(i) = top;
    }
  });
  const int n = 37;
  const Tensor sums = untouched({n}), most = untouched({n});
  k(Stream(device), Tensor::iota({n}, DType::f32, device), sums, most);
  for (int i = 0; i < n; ++i) {
    double sum = 0;
    for (int j = std::max(0, i - 2); j <= std::min(n - 1, i + 2); ++j) sum += j;
    EXPECT_EQ(sums.to_doubles()[static_cast<std::size_t>(i)], sum);
    EXPECT_EQ(most.to_doubles()[static_cast<std::size_t>(i)], std::min(n - 1, i + 2));
  }
}

TEST_P(AbsentCarry, KeepsInNestedLoopsAndBranches) {
  const auto k = kernel("nested", [](In<f32, 2> x, Scalar<i32> skip, Out<f32, 1> y) {
    for (auto i : grid(y, 16)) {
      auto acc = zeros<f32>(16);
      for (auto r : steps(3, 1))
        for (auto tap : steps(2, 1))
          if_(r.first() != skip.value(), [&] { acc = acc + x(r, i.shifted(tap.first() * 9)); });
      y(i) = acc;
    }
  });
  const Tensor y = untouched({16});
  k(Stream(device), Tensor::full({2, 12}, 1, DType::f32, device), 1, y);
  for (std::size_t i = 0; i < 16; ++i)
    EXPECT_EQ(y.to_doubles()[i], i < 3 ? 2 : i < 12 ? 1 : 0) << i;
}

/// A first value that lacks elements one by one, and steps that lack others.
TEST_P(AbsentCarry, CarriesThePresenceOfMaskedFirstValues) {
  const auto k = kernel("masked", [](In<f32, 1> x, Out<f32, 1> y) {
    y.partial();
    for (auto i : grid(y, 16)) {
      Tile acc = where(i.indices() % 2 == 0, x(i), x(i.shifted(100)));
      for (auto tap : steps(2, 1)) acc = acc * x(i.shifted(tap.first()));
      y(i) = acc;
    }
  });
  const Tensor y = untouched({20});
  k(Stream(device), Tensor::full({20}, 1, DType::f32, device), y);
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_EQ(y.to_doubles()[i], i % 2 == 0 ? 1 : untouched({1}).to_doubles()[0]) << i;
}

/// A loop of the host's length that makes no step, a ragged first value, and both.
TEST_P(AbsentCarry, FirstValuesOfLoops) {
  const auto k =
      kernel("first_values", [](In<f32, 1> x, Scalar<i32> count, Out<f32, 1> y, Out<f32, 1> z) {
        y.partial();
        z.partial();
        for (auto i : grid(y, 16)) {
          Tile acc = full<f32>(3, 16), last = x(i);
          for (auto s : steps(count, 1)) {
            acc = acc + x(i);
            last = full<f32>(7, 16) + cast<f32>(s.first());
          }
          y(i) = acc;
          z(i) = last;
        }
      });
  for (const int count : {0, 1, 3}) {
    const Tensor y = untouched({16}), z = untouched({16});
    const double old = y.to_doubles()[0];
    k(Stream(device), Tensor::full({10}, 1, DType::f32, device), count, y, z);
    for (std::size_t i = 0; i < 16; ++i) {
      EXPECT_EQ(y.to_doubles()[i], i < 10 ? 3 + count : old) << count << ": " << i;
      EXPECT_EQ(z.to_doubles()[i], count > 0 ? 6 + count : i < 10 ? 1 : old) << count << ": " << i;
    }
  }
}

/// Padding, shift with a border, and concatenation as one writes them in Triton or NumPy.
TEST_P(AbsentCarry, WhereTakesThePresenceOfItsChoice) {
  const auto pad = kernel("pad", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 32)) y(i) = where(i.indices() < x.dim(0), x(i), 0.0f);
  });
  const auto concat = kernel("concat", [](In<f32, 1> a, In<f32, 1> b, Out<f32, 1> y) {
    y.partial();
    for (auto i : grid(y, 32)) y(i) = where(i.indices() < a.dim(0), a(i), b(i.shifted(-a.dim(0))));
  });
  const auto shift = kernel("shift", [](In<f32, 1> x, Out<f32, 1> y) {
    y.partial();
    for (auto i : grid(y, 32)) y(i) = where(i.indices() > 0, x(i.shifted(-1)), -1.0f);
  });
  const Tensor x = Tensor::iota({20}, DType::f32, device), padded = untouched({40}),
               both = untouched({45}), moved = untouched({25});
  pad(Stream(device), x, padded);
  concat(Stream(device), x, x, both);
  shift(Stream(device), x, moved);
  for (int i = 0; i < 45; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (i < 40) {
      EXPECT_EQ(padded.to_doubles()[at], i < 20 ? i : 0) << i;
    }
    EXPECT_EQ(both.to_doubles()[at], i < 20 ? i : i < 40 ? i - 20 : -7) << i;
    if (i < 25) {
      EXPECT_EQ(moved.to_doubles()[at], i <= 20 ? i - 1 : -7) << i;
    }
  }
}

}  // namespace
}  // namespace tegula::test::absent_carry_test
