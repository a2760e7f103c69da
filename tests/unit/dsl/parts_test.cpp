// Partitions of the steps of a loop and of a view, and tiles by number.
#include <gmock/gmock.h>

#include "run_on_host.h"

namespace tegula::parts_test {
namespace {

using test::empty;
using test::kHost;
using testing::Each;
using testing::HasSubstr;
using testing::Not;

/// Returns how often each of `size` elements is in a part, for steps of 3 from `first`.
std::vector<i32> visits(int size, int first, int parts) {
  const auto k = kernel("k", [first](InOut<i32, 1> z, Scalar<i32> number) {
    for (auto p : grid(GridSpace(number), 1))
      for (auto i : steps(first, z.dim(0), 3).chunk(p.first(), number)) z(i) += 1;
  });
  const Tensor z = Tensor::zeros({size}, DType::i32, kHost);
  test::run(k, z, parts);
  return z.to_vector<i32>();
}

TEST(PartsOfSteps, HaveEveryStepOnce) {
  for (const int size : {1, 3, 17, 18})
    for (const int parts : {1, 2, 4, 9})
      EXPECT_THAT(visits(size, 0, parts), Each(1)) << size << " in " << parts;
  std::vector<i32> expected(17, 1);
  expected[0] = expected[1] = 0;
  EXPECT_EQ(visits(17, 2, 3), expected);
}

TEST(PartsOfSteps, TheOnlyOneIsAllOfThem) {
  const auto text = [](bool divided) {
    return kernel("k",
                  [divided](In<f32, 1> x, Out<f32, 1> z) {
                    for (auto i : grid(z, 1)) {
                      Tile sum = 0.0f;
                      auto all = steps(x.dim(0), 4);
                      for (auto k : divided ? all.chunk(i.first(), 1) : all)
                        sum += tegula::sum(x(k));
                      z(i) = sum;
                    }
                  })
        .trace(empty({9}), empty({1}))
        .text();
  };
  EXPECT_EQ(text(true), text(false));
}

/// Tile numbers at the positions of their tiles, in blocks of 1 x 2 x 3.
template <class... Order>
std::vector<i32> numbered(const Dims& shape, Order... order) {
  const auto k = kernel("k", [=](Out<i32, 3> z, Scalar<i32> count) {
    for (auto p : grid(GridSpace(count), 1)) {
      const auto tiles = tiles_of(z, 1, 2, 3, order...);
      const auto [b, m, n] = tiles.at(p.first());
      z(b, m, n) = full<i32>(p.first() + tiles.count() * 100, 2, 3);
    }
  });
  const Tensor z = Tensor::full(shape, -1, DType::i32, kHost);
  test::run(k, z, static_cast<int>(shape[0] * ((shape[1] + 1) / 2) * ((shape[2] + 2) / 3)));
  return z.to_vector<i32>();
}

TEST(TilesOf, RowByRow) {
  EXPECT_EQ(numbered({2, 3, 4}), (std::vector<i32>{800, 800, 800, 801, 800, 800, 800, 801,  //
                                                   802, 802, 802, 803,                      //
                                                   804, 804, 804, 805, 804, 804, 804, 805,  //
                                                   806, 806, 806, 807}));
}

TEST(TilesOf, InGroupsOfRows) {
  EXPECT_EQ(numbered({1, 5, 4}, group_m(2)),
            (std::vector<i32>{600, 600, 600, 602, 600, 600, 600, 602,  //
                              601, 601, 601, 603, 601, 601, 601, 603,  //
                              604, 604, 604, 605}));
}

TEST(TilesOf, BalancedPairs) {
  EXPECT_EQ(numbered({1, 2, 9}, balanced_pairs),
            (std::vector<i32>{301, 301, 301, 302, 302, 302, 300, 300, 300,  //
                              301, 301, 301, 302, 302, 302, 300, 300, 300}));
}

TEST(PartsOfViews, FirstSubscriptGiven) {
  const auto k = kernel("k", [](In<f32, 3> x, Out<f32, 3> z) {
    const auto turn = [](const auto& from, const auto& to, Index m, Index n) {
      to(m, n) = from(n, m).T();
    };
    for (auto [b, m, n] : grid(z, 1, 2, 2)) turn(x[b], z[b], m, n);
  });
  const Tensor x = Tensor::iota({2, 3, 5}, DType::f32, kHost), z = empty({2, 5, 3});
  test::run(k, x, z);
  EXPECT_EQ(z.to_vector<float>(), x.transpose(1, 2).contiguous().to_vector<float>());
}

/// The CTAs of a cluster compute one tile: no other tile shares loads or alternates with it.
TEST(Clusters, NeitherMulticastNorPingpong) {
  const auto text = [](int programs) {
    return kernel("k",
                  [programs](Out<f32, 2> z) {
                    for (auto [m, n] : grid(z, 8, 8, cluster(programs))) z(m, n) = 0.0f;
                  })
        .prefer({.tma_store = true, .tma_aux_loads = true, .multicast = true, .pingpong = true})
        .trace(empty({16, 16}))
        .text();
  };
  for (const char* hint : {"multicast", "pingpong", "tma_store", "tma_aux_loads"}) {
    EXPECT_THAT(text(1), HasSubstr(hint));
    EXPECT_THAT(text(2), Not(HasSubstr(hint)));
  }
}

}  // namespace
}  // namespace tegula::parts_test
