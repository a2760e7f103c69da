// Parts of tiles, tiles put together and elements chosen by an index, on every available device:
// of any extents, by 1, 4 and 8 warps, with rows and columns that end inside the tile.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <optional>
#include <vector>

#include "tegula/tegula.h"
#include "tests/differential/devices.h"
#include "tests/differential/exact_matmul.h"
#include "tests/error/expect_error.h"

namespace tegula::shape_ops_test {
namespace {

using test::expect_equal;
/// A row of a tile; nothing where an element is absent.
using Line = std::vector<std::optional<double>>;
using Model = std::function<Line(const Line&)>;

constexpr double kUntouched = -1;
constexpr int kRows = 5;  ///< two blocks of two rows, and one of which a row is absent
constexpr int kWarps[] = {1, 4, 8};

class ShapeOps : public test::OnDevice {
 protected:
  /// Rows of `n` columns, of which `present` are inside x, through `f`, which gives `wide` columns.
  template <class F>
  void expect_rows(int n, int present, int wide, F f, const Model& model) const {
    const auto rows_of = kernel("rows", [=](In<f32, 2> x, InOut<f32, 2> y) {
      for (auto r : grid(rows(y), 2)) {  // a block of 1 has no dimension
        const Tile result = f(x(r, slice(0, n)).reshape({2, n}));
        y(r, slice(0, wide)) = wide == 1 ? squeeze(result, 1) : result;
      }
    });
    const Tensor x = Tensor::iota({kRows, present}, DType::f32, GetParam());
    std::vector<double> want;
    for (int r = 0; r < kRows; ++r) {
      Line line(static_cast<std::size_t>(n));
      for (int c = 0; c < present; ++c) line[static_cast<std::size_t>(c)] = r * present + c;
      for (const auto& value : model(line)) want.push_back(value.value_or(kUntouched));
    }
    for (const int warps : kWarps) {
      SCOPED_TRACE(testing::Message() << n << " columns, " << present << " of them, " << warps);
      const Tensor y = Tensor::full({kRows, wide}, kUntouched, DType::f32, GetParam());
      rows_of.with_plan("num_warps=" + std::to_string(warps))(stream(), x, y);
      expect_equal(y, want);
    }
  }
  /// Each is several compilations, which take longer for a GPU.
  static std::vector<int> extents() {
    if (GetParam().kind == DeviceKind::cuda) return {1, 3, 32, 100, 255};
    return {1, 2, 3, 7, 31, 32, 33, 64, 96, 100, 128, 255, 1000};
  }
  /// All extents, whole and ragged.
  template <class Check>
  static void for_extents(Check check) {
    for (const int n : extents()) {
      check(n, n);
      if (n > 2) check(n, n - n / 3);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, ShapeOps, testing::ValuesIn(test::devices()), test::device_name);

TEST_P(ShapeOps, Slices) {
  for_extents([&](int n, int present) {
    const int first = n / 3, extent = n - n / 2;
    expect_rows(
        n, present, extent, [=](const Tile& t) { return slice(t, 1, first, extent); },
        [=](const Line& x) { return Line(x.begin() + first, x.begin() + first + extent); });
  });
}

TEST_P(ShapeOps, Pads) {
  for_extents([&](int n, int present) {
    expect_rows(
        n, present, n + 5, [](const Tile& t) { return pad(t, 1, 2, 3, 7); },
        [](Line x) {
          x.insert(x.begin(), {7, 7});
          x.insert(x.end(), {7, 7, 7});
          return x;
        });
  });
}

/// Parts of one extent, and parts of different ones.
TEST_P(ShapeOps, Cats) {
  for_extents([&](int n, int present) {
    expect_rows(
        n, present, 2 * n, [](const Tile& t) { return cat({t * 2.0f, t + 1.0f}, axis(1)); },
        [](const Line& x) {
          Line out;
          for (const auto& v : x) out.push_back(v ? std::optional(*v * 2) : v);
          for (const auto& v : x) out.push_back(v ? std::optional(*v + 1) : v);
          return out;
        });
    expect_rows(
        n, present, n + 1, [](const Tile& t) { return cat({sum(t, 1, keepdims), t}, 1); },
        [](Line x) {
          double sum = 0;
          for (const auto& v : x) sum += v.value_or(0);
          x.insert(x.begin(), sum);
          return x;
        });
  });
}

TEST_P(ShapeOps, InterleavesAndSplits) {
  for_extents([&](int n, int present) {
    expect_rows(
        n, present, 2 * n, [](const Tile& t) { return interleave(t, -t); },
        [](const Line& x) {
          Line out;
          for (const auto& v : x) out.insert(out.end(), {v, v ? std::optional(-*v) : v});
          return out;
        });
    if (n % 2 != 0) return;
    expect_rows(
        n, present, n,
        [n](const Tile& t) {
          const auto [even, odd] = split(t.reshape({2, n / 2, 2}));
          return cat({odd, even}, 1);
        },
        [](const Line& x) {
          Line out;
          for (const std::size_t first : {1, 0})
            for (std::size_t i = first; i < x.size(); i += 2) out.push_back(x[i]);
          return out;
        });
  });
}

TEST_P(ShapeOps, Flips) {
  for_extents([&](int n, int present) {
    const Model model = [](Line x) {
      std::ranges::reverse(x);
      return x;
    };
    expect_rows(n, present, n, [](const Tile& t) { return flip(t, 1); }, model);
    expect_rows(n, present, n, [](const Tile& t) { return flip(t.T(), 0).T(); }, model);
  });
}

TEST_P(ShapeOps, Gathers) {
  for_extents([&](int n, int present) {
    expect_rows(
        n, present, n + 3,
        [n](const Tile& t) { return gather(t, ((arange(n + 3) * 7 + 3) % n)(none, all), 1); },
        [n](const Line& x) {
          Line out;
          for (int i = 0; i < n + 3; ++i)
            out.push_back(x[static_cast<std::size_t>((i * 7 + 3) % n)]);
          return out;
        });
  });
}

/// The index is of the element's own value.
TEST_P(ShapeOps, GathersByValues) {
  for_extents([&](int n, int present) {
    expect_rows(
        n, present, n, [n](const Tile& t) { return gather(t, cast<i64>(t) % n, 1); },
        [n](const Line& x) {
          Line out;
          for (const auto& v : x)
            out.push_back(v ? x[static_cast<std::size_t>(static_cast<int>(*v) % n)] : v);
          return out;
        });
  });
}

TEST_P(ShapeOps, Scatters) {
  for_extents([&](int n, int present) {
    expect_rows(
        n, present, n + 2,
        [n](const Tile& t) {
          return scatter(full<f32>(5, 2, n + 2), (n - arange(n))(none, all), t, 1);
        },
        [n](const Line& x) {
          Line out(static_cast<std::size_t>(n + 2), 5.0);
          for (int i = 0; i < n; ++i)
            if (x[static_cast<std::size_t>(i)])
              out[static_cast<std::size_t>(n - i)] = x[static_cast<std::size_t>(i)];
          return out;
        });
    expect_rows(
        n, present, n,
        [](const Tile& t) { return scatter(t, sum(cast<i32>(t) * 0, 1, keepdims), 3.0f, 1); },
        [](Line x) {
          x[0] = 3;
          return x;
        });
  });
}

TEST_P(ShapeOps, CombiningScatters) {
  const auto each = [&](Combine by, double first, auto combine) {
    for_extents([&](int n, int present) {
      if (n > 300) return;
      expect_rows(
          n, present, n / 2 + 1,
          [=](const Tile& t) {
            const Tile into = full<i32>(first, 2, n / 2 + 1);
            return cast<f32>(scatter(into, (arange(n) / 3)(none, all), cast<i32>(t), 1, by));
          },
          [=](const Line& x) {
            Line out(static_cast<std::size_t>(n / 2 + 1), first);
            for (std::size_t i = 0; i < x.size(); ++i)
              if (x[i])
                out[i / 3] = combine(static_cast<int>(*out[i / 3]), static_cast<int>(*x[i]));
            return out;
          });
    });
  };
  each(Combine::add, 1, [](int a, int b) { return a + b; });
  each(Combine::max, 20, [](int a, int b) { return std::max(a, b); });
  each(Combine::min, 20, [](int a, int b) { return std::min(a, b); });
  each(Combine::bit_or, 1, [](int a, int b) { return a | b; });
}

TEST_P(ShapeOps, ElementsAtRunTime) {
  for_extents([&](int n, int present) {
    const Model second_of = [=](const Line& x) { return Line{x[static_cast<std::size_t>(n / 2)]}; };
    const auto half = [n](const Tile& t) { return cast<i32>(max(t * 0.0f)) + n / 2; };
    expect_rows(
        n, present, 1, [=](const Tile& t) { return extract(t, 1, half(t))(all, none); }, second_of);
    expect_rows(n, present, 1, [=](const Tile& t) { return t(all, n / 2)(all, none); }, second_of);
    expect_rows(
        n, present, n, [=](const Tile& t) { return insert(t, 1, half(t), sum(t, 1)); },
        [=](Line x) {
          double sum = 0;
          for (const auto& v : x) sum += v.value_or(0);
          x[static_cast<std::size_t>(n / 2)] = sum;
          return x;
        });
  });
}

TEST_P(ShapeOps, NewDimensionsAndKeptOnes) {
  for_extents([&](int n, int present) {
    expect_rows(
        n, present, n,
        [n](const Tile& t) {
          const Tile scaled = t - min(t, 1, keepdims) + max(t, axis(1))(all, none);
          return squeeze(scaled(all, none, all), 1) + ravel(zeros<f32>(1, n))(none, all);
        },
        [](Line x) {
          double low = inf, high = -inf;
          for (const auto& v : x)
            if (v) low = std::min(low, *v), high = std::max(high, *v);
          for (auto& v : x)
            if (v) *v += high - low;
          return x;
        });
  });
}

TEST_P(ShapeOps, EveryWidth) {
  const auto turned = [&]<class T>(T) {
    const auto k = kernel("turned", [](In<T, 1> x, Out<T, 1> y) {
      for (auto i : grid(y, 100)) {
        const Tile t = x(i);
        y(i) = cat({flip(slice(t, 0, 30, 70), 0), t(part(0, 30))}, 0);
      }
    });
    const Tensor x = Tensor::iota({100}, dtype_of<T>, GetParam()), y = empty({100}, dtype_of<T>);
    k(stream(), x, y);
    std::vector<double> want(100);
    for (int i = 0; i < 100; ++i) want[static_cast<std::size_t>(i)] = i < 70 ? 99 - i : i - 70;
    expect_equal(y, want);
  };
  turned(i8());
  turned(f16());
  turned(i32());
  turned(i64());
  turned(f64());
}

TEST_P(ShapeOps, FlagsAndPointers) {
  const auto k = kernel("flags", [](In<i32, 1> x, Out<i32, 1> y, Ptr<i32> copy) {
    for (auto i : grid(y, 96)) {
      const Tile is_large = flip(x(i) > 30, 0);
      y(i) = cast<i32>(cat({is_large(part(48, 48)), is_large(part(0, 48))}, 0));
      store(flip(copy + i.indices(), 0), x(i));
    }
  });
  const Tensor x = Tensor::iota({96}, DType::i32, GetParam()), y = empty({96}, DType::i32),
               copy = empty({96}, DType::i32);
  k(stream(), x, y, copy);
  std::vector<double> want, reversed;
  for (int i = 0; i < 96; ++i) {
    want.push_back(95 - (i + 48) % 96 > 30 ? 1 : 0);
    reversed.push_back(95 - i);
  }
  expect_equal(y, want);
  expect_equal(copy, reversed);
}

/// An out-of-bounds index gives 0, which is present; `cpu` and `sim` report it.
TEST_P(ShapeOps, GathersOutside) {
  const auto k = kernel("outside", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 64)) y(i) = gather(x(i), arange(64) * 2 - 10, 0);
  });
  const Tensor x = Tensor::iota({64}, DType::f32, GetParam()), y = empty({64}, DType::f32);
  if (GetParam().kind != DeviceKind::cuda) {
    const std::string error = test::error_of([&] { k(stream(), x, y); });
    EXPECT_NE(error.find("T1314"), std::string::npos) << error;
    EXPECT_NE(error.find("an index of a gather is outside of the 64 elements"), std::string::npos)
        << error;
    return;
  }
  k(stream(), x, y);
  std::vector<double> want;
  for (int i = 0; i < 64; ++i) want.push_back(i >= 5 && i < 37 ? i * 2 - 10 : 0);
  expect_equal(y, want);
}

TEST_P(ShapeOps, TwoElementsAtOneIndex) {
  if (GetParam().kind == DeviceKind::cuda) GTEST_SKIP() << "which one stays is open there";
  const auto k = kernel("twice", [](In<f32, 1> x, Out<f32, 1> y) {
    for (auto i : grid(y, 64)) y(i) = scatter(x(i), arange(64) % 32, x(i), 0);
  });
  const Tensor x = Tensor::iota({64}, DType::f32, GetParam()), y = empty({64}, DType::f32);
  const std::string error = test::error_of([&] { k(stream(), x, y); });
  EXPECT_NE(error.find("T1319"), std::string::npos) << error;
}

/// Batches of products: operands in memory, in a loop and in registers.
TEST_P(ShapeOps, BatchedDots) {
  const auto check = [&](int batch, int m, int n, int k, DType dtype, auto tag) {
    using T = decltype(tag);
    SCOPED_TRACE(testing::Message() << batch << ": " << m << " " << n << " " << k);
    const auto product = kernel("products", [=](In<T, 3> A, In<T, 3> B, Out<f32, 3> C) {
      for (auto [b, i, j] : grid(C, batch, m, n)) {
        auto acc = zeros<f32>(batch, m, n);
        const auto left = [&](const Index& l) { return A(b, i, l).reshape({batch, m, k}); };
        const auto right = [&](const Index& l) { return B(b, l, j).reshape({batch, k, n}); };
        for (auto l : steps(A.dim(2), k)) acc = dot(left(l), right(l), acc);
        const Tile sum = acc + dot(left(slice(0, k)) + 1.0f, right(slice(0, k)));
        C(b, i, j) = batch == 1 ? squeeze(sum, 0) : sum;
      }
    });
    const std::int64_t b = batch + 1, rows = 2 * m - 1, cols = 2 * n - 1, depth = 2 * k + 1;
    const Tensor A = integers({b, rows, depth}, dtype, 1), B = integers({b, depth, cols}, dtype, 2),
                 C = empty({b, rows, cols}, DType::f32);
    product(stream(), A, B, C);
    std::vector<double> want = test::product(A, B);
    const auto av = A.to_doubles(), bv = B.to_doubles();
    for (std::int64_t e = 0; e < b; ++e)
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < cols; ++j)
          for (std::int64_t l = 0; l < k; ++l)
            want[static_cast<std::size_t>((e * rows + i) * cols + j)] +=
                (av[static_cast<std::size_t>((e * rows + i) * depth + l)] + 1) *
                bv[static_cast<std::size_t>((e * depth + l) * cols + j)];
    expect_equal(C, want);
  };
  check(2, 16, 8, 16, DType::bf16, bf16());
  check(3, 32, 16, 32, DType::f16, f16());
  check(4, 7, 5, 3, DType::f32, f32());
  check(1, 16, 16, 16, DType::f32, f32());
}

}  // namespace
}  // namespace tegula::shape_ops_test
