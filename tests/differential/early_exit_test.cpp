// break_if, exit_program_if and map against loops of the host, on every device.
#include <gtest/gtest.h>

#include <cmath>

#include "devices.h"
#include "tegula/tegula.h"

namespace tegula::early_exit_test {
namespace {

class EarlyExit : public testing::TestWithParam<Device> {
 protected:
  static Tensor integers(std::int64_t n, std::int64_t low, std::int64_t high, unsigned seed = 3) {
    return Tensor::integers({n}, DType::i32, low, high, seed, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, EarlyExit, testing::ValuesIn(test::devices()), test::device_name);

/// Adds numbers until their sum reaches a limit; the one that reaches it counts, the rest of its
/// iteration does not.
TEST_P(EarlyExit, LeavesSteps) {
  const auto k = kernel("until", [](In<i32, 2> x, Scalar<i32> limit, Out<i32, 2> y) {
    for (auto r : grid(rows(y), 1)) {
      Tile total = full<i32>(0), complete = full<i32>(0);
      for (auto c : steps(x.cols(), 1)) {
        total += x(r, c);
        break_if(total >= limit);
        complete += 1;
      }
      y(r, 0) = total;
      y(r, 1) = complete;
    }
  });
  const std::int64_t n = 40;
  for (const int limit : {0, 1, 60, 100000}) {
    const Tensor x = Tensor::integers({7, n}, DType::i32, 0, 9, 5, GetParam()),
                 y = Tensor::empty({7, 2}, DType::i32, GetParam());
    k(x, limit, y);
    const auto in = x.to_vector<i32>(), out = y.to_vector<i32>();
    for (std::size_t r = 0; r < 7; ++r) {
      int total = 0, complete = 0;
      for (std::size_t c = 0; c < static_cast<std::size_t>(n); ++c) {
        total += in[r * n + c];
        if (total >= limit) break;
        ++complete;
      }
      EXPECT_EQ(out[2 * r], total) << limit;
      EXPECT_EQ(out[2 * r + 1], complete) << limit;
    }
  }
}

/// Two breaks in one body, in a loop in a loop, with tiles that are carried.
TEST_P(EarlyExit, LeavesTheInnerLoopOnly) {
  const auto k = kernel("nested", [](In<i32, 1> x, Out<i32, 1> y) {
    for (auto i : grid(y, 32)) {
      Tile acc = zeros<i32>(32);
      for (auto a : steps(4, 1)) {
        for (auto b : steps(10, 1)) {
          break_if(b.indices() > a.indices() + 2);
          acc += x(i);
          break_if(sum(acc) > 3000);
          acc += 1;
        }
        acc += 100;
      }
      y(i) = acc;
    }
  });
  const Tensor x = integers(64, 0, 20), y = Tensor::empty({64}, DType::i32, GetParam());
  k(x, y);
  const auto in = x.to_vector<i32>(), out = y.to_vector<i32>();
  for (std::size_t p = 0; p < 2; ++p) {
    std::vector<int> acc(32);
    for (int a = 0; a < 4; ++a) {
      for (int b = 0; b < 10; ++b) {
        if (b > a + 2) break;
        int total = 0;
        for (std::size_t i = 0; i < 32; ++i) total += acc[i] += in[32 * p + i];
        if (total > 3000) break;
        for (int& v : acc) ++v;
      }
      for (int& v : acc) v += 100;
    }
    for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(out[32 * p + i], acc[i]) << i;
  }
}

/// The condition of a `while_` that was left is not evaluated again: it would read outside `x`.
TEST_P(EarlyExit, LeavesWhile) {
  const auto k = kernel("find", [](Ptr<i32> x, Scalar<i32> count, Out<i32, 1> y) {
    for (auto i : grid(y, 1)) {
      Tile at = full<i32>(0);
      while_([&] { return load(x + at) != 7; },
             [&] {
               at += 1;
               break_if(at == count);
             });
      y(i) = at;
    }
  });
  const Tensor y = Tensor::empty({1}, DType::i32, GetParam());
  k(Tensor::from(std::vector<i32>{1, 2, 3, 7, 5}, GetParam()), 5, y);
  EXPECT_EQ(y.to_vector<i32>()[0], 3);
  k(Tensor::from(std::vector<i32>{1, 2, 3, 4, 5}, GetParam()), 5, y);
  EXPECT_EQ(y.to_vector<i32>()[0], 5);
}

TEST_P(EarlyExit, ProgramsEnd) {
  const auto k = kernel("some", [](In<i32, 1> x, InOut<i32, 1> y) {
    for (auto i : grid(y, 16)) {
      Tile t = x(i);
      exit_program_if(max(t) < 50);
      t = t + 1;
      exit_program_if(min(t) > 90);
      y(i) = t;
    }
  });
  const Tensor x = integers(160, 0, 100), y = Tensor::full({160}, -1, DType::i32, GetParam());
  auto in = x.to_vector<i32>();
  for (std::size_t i = 16; i < 32; ++i) in[i] %= 40;
  for (std::size_t i = 32; i < 48; ++i) in[i] = 95;
  k(Tensor::from(in, GetParam()), y);
  const auto out = y.to_vector<i32>();
  for (std::size_t i = 0; i < 160; ++i) {
    const auto first = in.begin() + static_cast<std::ptrdiff_t>(i / 16 * 16);
    const bool ends =
        *std::max_element(first, first + 16) < 50 || *std::min_element(first, first + 16) + 1 > 90;
    EXPECT_EQ(out[i], ends ? -1 : in[i] + 1) << i;
  }
}

/// Elements take separate branches and loop as often as they need; absent ones never.
TEST_P(EarlyExit, MapsElements) {
  const auto k = kernel("collatz", [](In<i32, 1> x, Scalar<i32> first, Out<i32, 1> y) {
    for (auto i : grid(y, 64))
      y(i) = map(
          [&](Tile n) {
            Tile taken = full<i32>(0);
            if_(
                n < 1, [&] { taken = first; },
                [&] {
                  while_([&] { return n > 1; },
                         [&] {
                           if_(n % 2 == 0, [&] { n = n / 2; }, [&] { n = 3 * n + 1; });
                           taken += 1;
                         });
                });
            return taken;
          },
          x(i));
  });
  const Tensor x = integers(100, -5, 60), y = Tensor::empty({100}, DType::i32, GetParam());
  k(x, -9, y);
  const auto in = x.to_vector<i32>(), out = y.to_vector<i32>();
  for (std::size_t i = 0; i < 100; ++i) {
    int n = in[i], taken = n < 1 ? -9 : 0;
    for (; n > 1; ++taken) n = n % 2 == 0 ? n / 2 : 3 * n + 1;
    EXPECT_EQ(out[i], taken) << in[i];
  }
}

/// Loops in loops and in branches, of two tiles that are broadcast.
TEST_P(EarlyExit, MapsElementsByNestedLoops) {
  const auto k = kernel("pairs", [](In<i32, 1> a, In<i32, 1> b, Out<i32, 2> y) {
    for (auto [r, c] : grid(y, 8, 16))
      y(r, c) = map(
          [](Tile n, Tile m) {
            Tile total = full<i32>(0), i = full<i32>(0);
            while_([&] { return i < n; },
                   [&] {
                     Tile j = full<i32>(0) + i;
                     if_(m > 2, [&] {
                       while_([&] { return j < m; },
                              [&] {
                                total += j;
                                j += 1;
                              });
                     });
                     i += 1;
                   });
            return total;
          },
          expand(a(r), 1), expand(b(c), 0));
  });
  const Tensor a = integers(11, 0, 7), b = integers(21, 0, 9, 4),
               y = Tensor::empty({11, 21}, DType::i32, GetParam());
  k(a, b, y);
  const auto n = a.to_vector<i32>(), m = b.to_vector<i32>(), out = y.to_vector<i32>();
  for (std::size_t r = 0; r < 11; ++r)
    for (std::size_t c = 0; c < 21; ++c) {
      int total = 0;
      for (int i = 0; i < n[r]; ++i)
        for (int j = i; m[c] > 2 && j < m[c]; ++j) total += j;
      EXPECT_EQ(out[r * 21 + c], total) << n[r] << " " << m[c];
    }
}

/// Warps whose elements have left the loop go round it, changing nothing, until the last one has.
TEST_P(EarlyExit, MapsElementsOfWhichOneWarpIsLast) {
  const auto k = kernel("counted", [](In<i32, 1> x, Out<i32, 1> y) {
    for (auto i : grid(y, 256))
      y(i) = map(
          [](Tile n) {
            Tile taken = full<i32>(0);
            while_([&] { return taken < n; }, [&] { taken += 1; });
            return taken;
          },
          x(i));
  });
  for (const int last : {0, 40, 200}) {
    std::vector<i32> in(256, 1);
    in[static_cast<std::size_t>(last)] = 300;
    const Tensor x = Tensor::from(in, GetParam()), y = Tensor::empty({256}, DType::i32, GetParam());
    k.prefer({.num_warps = 8})(x, y);
    EXPECT_EQ(y.to_vector<i32>(), in);
  }
}

}  // namespace
}  // namespace tegula::early_exit_test
