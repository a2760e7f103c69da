// Absent elements that change a result: accumulators that lose elements, contractions of different
// lengths, halos that reach a store, and the extents of tiles that `all` reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tegula/kernels/attention.h"
#include "tegula/tegula.h"
#include "tests/differential/devices.h"

namespace tegula::test::lost_elements_test {
using namespace kernels;
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class LostElements : public testing::TestWithParam<Device> {
 protected:
  Tensor ones(const Dims& shape, DType type = DType::f32) const {
    return Tensor::full(shape, 1, type, GetParam());
  }
  Tensor out(const Dims& shape) const { return Tensor::full(shape, -7, DType::f32, GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, LostElements, testing::Values(Device::cpu(), Device::sim()),
                         device_name);

/// Returns the text of the error; "" if the call succeeds.
std::string found_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_THAT(std::string(e.what()), HasSubstr("lost_elements_test.cpp"));
    return e.what();
  }
  return {};
}

// ---- accumulators -------------------------------------------------------------------------------

TEST_P(LostElements, ASumOfSlices) {
  const auto sum_of = [](int how) {
    return kernel("sums", [how](In<f32, 1> x, Out<f32, 1> z) {
      for (auto p : grid(z, 1)) {
        Tile s = zeros<f32>(8);
        for (int j = 0; j < 2; ++j) {
          if (how == 0) s = s + x(slice(j * 8, 8));
          if (how == 1) s += x(slice(j * 8, 8));
          if (how == 2) s = s + fill_absent(x(slice(j * 8, 8)), 0);
        }
        if (how == 3)
          for (auto i : steps(x.dim(0), 8)) s = s + x(i);
        z(p) = sum(s);
      }
    });
  };
  const std::string found = found_by([&] { sum_of(0)(ones({10}), out({1})); });
  EXPECT_THAT(found, AllOf(HasSubstr("T1317"), HasSubstr("arg0 at "), HasSubstr("fill_absent")));
  for (int how = 0; how < 4; ++how) {
    const Tensor z = out({1});
    const int n = how == 0 ? 16 : 10;
    EXPECT_EQ(found_by([&] { sum_of(how)(ones({n}), z); }), "") << how;
    EXPECT_EQ(z.to_doubles()[0], n) << how;
  }
}

TEST_P(LostElements, AMaximumOfSlices) {
  const auto largest = [](bool fills) {
    return kernel("largest", [fills](In<f32, 1> x, Out<f32, 1> z) {
      for (auto p : grid(z, 1)) {
        Tile best = full<f32>(-inf, 8);
        for (int j = 0; j < 2; ++j) {
          const Tile t = x(slice(j * 8, 8));
          best = max(best, fills ? fill_absent(t, -inf) : t);
        }
        z(p) = max(best);
      }
    });
  };
  const Tensor x = Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 9, 3, 2, 1, 0}, GetParam()),
               z = out({1});
  EXPECT_THAT(found_by([&] { largest(false)(x, z); }), HasSubstr("T1317"));
  EXPECT_EQ(found_by([&] { largest(true)(x, z); }), "");
  EXPECT_EQ(z.to_doubles()[0], 9);
}

/// Each way adds up or counts the elements of `x`, or takes their maximum, in parts of 8.
TEST_P(LostElements, OtherWaysToAccumulate) {
  enum Fold { kFirstPart, kTree, kFirstMaximum, kScaled, kCount, kChosen, kLargest, kFolds };
  const auto fold = [](int way) {
    return kernel("fold", [way](In<f32, 1> x, Out<f32, 1> z) {
      for (auto p : grid(z, 1)) {
        const auto part = [&](int j) { return Tile(x(slice(j * 8, 8))); };
        Tile s = way == kLargest ? full<f32>(-inf, 8) : zeros<f32>(8);
        if (way == kFirstPart || way == kFirstMaximum) s = part(0);
        for (int j = way == kFirstPart || way == kFirstMaximum ? 1 : 0; j < 2; ++j) {
          const Tile t = part(j);
          if (way == kFirstPart) s = s + t;
          if (way == kFirstMaximum) s = max(s, t);
          if (way == kScaled) s = s * 1.0f + t;
          if (way == kCount) s = s + where(t > 0.0f, 1.0f, 0.0f);
          if (way == kChosen) s = where(t > 0.0f, s + t, s);
          if (way == kLargest) s = where(t > s, t, s);
        }
        if (way == kTree) s = (part(0) + part(1)) + (part(2) + part(3));
        z(p) = way == kFirstMaximum || way == kLargest ? max(s) : sum(s);
      }
    });
  };
  for (int way = 0; way < kFolds; ++way) {
    EXPECT_THAT(found_by([&] { fold(way)(ones({10}), out({1})); }),
                AllOf(HasSubstr("T1317"), HasSubstr("arg0 at ")))
        << way;
    const Tensor z = out({1});
    const int n = way == kTree ? 32 : 16;
    EXPECT_EQ(found_by([&] { fold(way)(ones({n}), z); }), "") << way;
    EXPECT_EQ(z.to_doubles()[0], way == kFirstMaximum || way == kLargest ? 1 : n) << way;
  }
}

/// Each way adds up the parts of `x` in branches that are taken if `n` is large enough.
TEST_P(LostElements, ASumAcrossBranches) {
  enum Sum { kThen, kBoth, kNested, kMaximum, kFresh, kFreshNumber, kFilled, kKept, kSteps, kSums };
  const auto sums = [](int way) {
    return kernel("sums", [way](In<f32, 1> x, Scalar<i32> n, Out<f32, 1> z) {
      for (auto p : grid(z, 1)) {
        Tile s = zeros<f32>(8), number = full<f32>(0.0f);
        const auto part = [&](int j) { return Tile(x(slice(j * 8, 8))); };
        const auto unrolled = [&] {
          s = zeros<f32>(8);
          for (int j = 0; j < 2; ++j) s = s + part(j);
        };
        for (int j = 0; j < 2; ++j) {
          if (way == kThen) if_(n > j, [&] { s = s + part(j); });
          if (way == kBoth) if_(n > j, [&] { s = s + part(j); }, [&] { s = s + 0.0f; });
          if (way == kNested) if_(n > 0, [&] { if_(n > j, [&] { s = part(j) + s; }); });
          if (way == kMaximum) if_(n > j, [&] { s = max(s, part(j)); });
          if (way == kFilled) if_(n > j, [&] { s = s + fill_absent(part(j), 0); });
          if (way == kKept) if_(n > j, [&] { s += part(j); });
        }
        if (way == kFresh) if_(n > 1, unrolled);
        if (way == kFreshNumber) if_(n > 1, [&] { unrolled(), number = sum(s); });
        if (way == kSteps)
          for (auto j : steps(2, 1))
            if_(n > j.first(), [&] { s = s + x(slice(j.first() * 8, 8)); });
        z(p) = sum(s) + number;
      }
    });
  };
  for (int way = 0; way < kSums; ++way) {
    const bool keeps = way >= kFilled;
    for (const int n : {0, 1, 2}) {
      const std::string found = found_by([&] { sums(way)(ones({10}), n, out({1})); });
      if (n == 2 && !keeps)
        EXPECT_THAT(found, AllOf(HasSubstr("T1317"), HasSubstr("arg0 at "))) << way;
      else
        EXPECT_EQ(found, "") << way << ", " << n;
    }
    EXPECT_EQ(found_by([&] { sums(way)(ones({16}), 2, out({1})); }), "") << way;
  }
}

TEST_P(LostElements, NeighboursThatOverlapLoseNothing) {
  const auto of_pairs = [](bool of_products) {
    return kernel("pairs", [of_products](In<f32, 1> x, Out<f32, 1> z) {
      for (auto p : grid(z, 1)) {
        const Tile a = x(slice(0, 16)), b = x(slice(1, 16));
        z(p) = sum(of_products ? a * b : max(a, b));
      }
    });
  };
  for (const bool of_products : {false, true}) {
    const Tensor z = out({1});
    EXPECT_EQ(found_by([&] { of_pairs(of_products)(ones({10}), z); }), "");
    EXPECT_EQ(z.to_doubles()[0], 9);
  }
}

/// A convolution along the rows. `first` to `last`: the taps.
auto convolution(int first, int last, bool fills) {
  return kernel("conv", [=](In<f16, 2> x, In<f16, 2> w, InOut<f32, 2> y) {
    for (auto [r, c] : grid(y, 16, 16)) {
      Tile s = zeros<f32>(16, 16);
      for (int t = first; t <= last; ++t)
        for (auto k : steps(x.cols(), 16)) {
          const Tile rows = x(r.shifted(t), k);
          s = dot(fills ? fill_absent(rows, 0) : rows, w(k, c), s);
        }
      y(r, c) = s;
    }
  });
}

TEST_P(LostElements, AConvolutionWithAHalo) {
  const Tensor x = ones({20, 16}, DType::f16), w = ones({16, 16}, DType::f16), y = out({20, 16});
  for (const auto& [first, last] : {std::pair(-1, 1), std::pair(-1, 0), std::pair(0, 1)})
    EXPECT_THAT(found_by([&, f = first, l = last] { convolution(f, l, false)(x, w, y); }),
                AllOf(HasSubstr("T1317"), HasSubstr("arg0 at "), Not(HasSubstr("arg1 at "))));
  EXPECT_EQ(found_by([&] { convolution(-1, 1, true)(x, w, y); }), "");
  EXPECT_EQ(y.to_doubles()[0], 32);
  EXPECT_EQ(y.to_doubles()[19 * 16], 32);
  // Without a halo: the rows that a tap lacks are beyond the result.
  EXPECT_EQ(found_by([&] { convolution(0, 2, false)(x, w, out({18, 16})); }), "");
}

TEST_P(LostElements, AFilterAndItsTaps) {
  const auto filter = kernel("filter", [](In<f32, 1> x, InOut<f32, 1> y) {
    for (auto i : grid(y, 16)) {
      Tile s = zeros<f32>(16);
      for (int t = 0; t < 3; ++t) s = s + x(i.shifted(t)) * float(t);
      y(i) = s;
    }
  });
  EXPECT_EQ(found_by([&] { filter(ones({20}), out({18})); }), "");
  EXPECT_THAT(found_by([&] { filter(ones({20}), out({20})); }), HasSubstr("T1317"));
}

TEST_P(LostElements, ATermOfAnotherTensor) {
  const auto add = [](bool from_zeros) {
    return kernel("add", [from_zeros](In<f32, 1> x, In<f32, 1> y, InOut<f32, 1> z) {
      for (auto i : grid(z, 16)) {
        if (from_zeros) {
          Tile s = zeros<f32>(16);
          s = s + x(i);
          s = s + y(i);
          z(i) = s;
        } else {
          z(i) = x(i) + y(i);
        }
      }
    });
  };
  EXPECT_THAT(found_by([&] { add(true)(ones({20}), ones({19}), out({20})); }),
              AllOf(HasSubstr("T1317"), HasSubstr("arg1 at "), Not(HasSubstr("arg0 at "))));
  EXPECT_THAT(found_by([&] { add(true)(ones({19}), ones({20}), out({20})); }),
              AllOf(HasSubstr("T1317"), HasSubstr("arg0 at "), Not(HasSubstr("arg1 at "))));
  EXPECT_EQ(found_by([&] { add(true)(ones({20}), ones({19}), out({19})); }), "");
  EXPECT_EQ(found_by([&] { add(false)(ones({20}), ones({19}), out({20})); }), "");
}

TEST_P(LostElements, AnOuterSumLosesNothing) {
  const auto nearest = kernel("nearest", [](In<f32, 1> x, In<f32, 1> y, Out<f32, 1> z) {
    for (auto i : grid(z, 16)) {
      Tile s = zeros<f32>(16, 16);
      s = s + x(i).expand(1);
      s = s + y(slice(0, 16)).expand(0);
      z(i) = sum(s, 1);
    }
  });
  const Tensor z = out({20});
  EXPECT_EQ(found_by([&] { nearest(ones({20}), ones({10}), z); }), "");
  EXPECT_EQ(z.to_doubles()[19], 20);
}

// ---- contractions -------------------------------------------------------------------------------

template <bool kFills>
auto product() {
  return kernel("product", [](In<f32, 2> a, In<f32, 2> b, Out<f32, 2> c) {
    for (auto [m, n] : grid(c, 32, 32)) {
      Tile s = zeros<f32>(32, 32);
      for (auto k : steps(a.cols(), 32))
        s = dot(a(m, k), kFills ? fill_absent(b(k, n), 0) : b(k, n), s);
      c(m, n) = s;
    }
  });
}

TEST_P(LostElements, AContractionOfTwoLengths) {
  EXPECT_THAT(found_by([&] { product<false>()(ones({64, 64}), ones({32, 64}), out({64, 64})); }),
              AllOf(HasSubstr("T1318"), HasSubstr("arg0.dim(1)"), HasSubstr("arg1.dim(0)"),
                    HasSubstr("arg0 is [64, 64], arg1 is [32, 64]"), HasSubstr("named")));
  EXPECT_THAT(found_by([&] { product<false>()(ones({40, 40}), ones({48, 40}), out({40, 40})); }),
              HasSubstr("T1318"));
  EXPECT_EQ(found_by([&] { product<false>()(ones({40, 40}), ones({40, 40}), out({40, 40})); }), "");
  EXPECT_EQ(found_by([&] { product<true>()(ones({64, 64}), ones({32, 64}), out({64, 64})); }), "");
}

TEST_P(LostElements, AContractionOfWholeRowsAndOfATransposedOperand) {
  const auto rows = kernel("rows", [](In<f32, 2> a, In<f32, 2> b, Out<f32, 2> c) {
    for (auto [m, n] : grid(c, 16, 16))
      c(m, n) = dot(a(m, slice(0, 32)), b(n, slice(0, 32)).T(), zeros<f32>(16, 16));
  });
  EXPECT_THAT(found_by([&] { rows(ones({16, 32}), ones({16, 20}), out({16, 16})); }),
              AllOf(HasSubstr("T1318"), HasSubstr("arg1.dim(1)")));
  EXPECT_EQ(found_by([&] { rows(ones({16, 20}), ones({16, 20}), out({16, 16})); }), "");
  EXPECT_EQ(found_by([&] { rows(ones({16, 40}), ones({16, 36}), out({16, 16})); }), "");
}

TEST_P(LostElements, ASumOfProductsOfTwoLengths) {
  const auto product = [](bool in_steps) {
    return kernel("product", [in_steps](In<f32, 2> a, In<f32, 1> x, Out<f32, 1> y) {
      for (auto m : grid(y, 16)) {
        Tile s = zeros<f32>(16);
        if (in_steps)
          for (auto k : steps(a.cols(), 32)) s += sum(a(m, k) * x(k)(none, all), 1);
        else
          s = sum(a(m, all) * x(all)(none, all), 1);
        y(m) = s;
      }
    });
  };
  for (const bool in_steps : {false, true}) {
    const Tensor y = out({16});
    EXPECT_THAT(found_by([&] { product(in_steps)(ones({16, 60}), ones({50}), y); }),
                AllOf(HasSubstr("T1318"), HasSubstr("arg0.dim(1)"), HasSubstr("arg1.dim(0)")));
    EXPECT_EQ(found_by([&] { product(in_steps)(ones({16, 60}), ones({60}), y); }), "");
    EXPECT_EQ(y.to_doubles()[15], 60);
  }
}

TEST_P(LostElements, AnAttentionOfKeysAndValues) {
  const auto attend = kernel("attend", [](In<f16, 2> q, In<f16, 2> k, In<f16, 2> v, Out<f32, 2> o) {
    for (auto m : grid(rows(o), 16)) {
      Tile top = full<f32>(-inf, 16), total = zeros<f32>(16), acc = zeros<f32>(16, 16);
      for (auto n : steps(k.rows(), 16)) {
        const Tile s = dot(q(m, slice(0, 16)), k(n, slice(0, 16)).T(), zeros<f32>(16, 16));
        const Tile now = max(top, max(s, axis(1))), scale = exp(top - now),
                   p = exp(s - now.expand(1));
        total = total * scale + sum(p, 1);
        acc = dot(cast<f16>(p), v(n, slice(0, 16)), acc * scale.expand(1));
        top = now;
      }
      o(m, slice(0, 16)) = acc / total.expand(1);
    }
  });
  const auto t = [&](int n) { return ones({n, 16}, DType::f16); };
  EXPECT_EQ(found_by([&] { attend(t(20), t(40), t(40), out({20, 16})); }), "");
}

// ---- reports of elements that were not stored ---------------------------------------------------

TEST_P(LostElements, AHaloThatReachesAnOut) {
  const auto conv = kernel("conv", [](In<f16, 4> x, In<f16, 4> w, Out<f32, 4> y) {
    for (auto [n, h, c, o] : grid(y, 1, 1, 16, 32)) {
      Tile acc = zeros<f32>(16, 32);
      for (int r = 0; r < 3; ++r)
        for (int s = 0; s < 3; ++s)
          for (auto k : steps(x.dim(3), 16))
            acc = dot(x(n, h.shifted(r - 1), c.shifted(s - 1), k), w(r, s, k, o), acc);
      y(n, h, c, o) = acc;
    }
  });
  const std::string found = found_by([&] {
    conv(Tensor::zeros({2, 7, 19, 24}, DType::f16, GetParam()),
         Tensor::zeros({3, 3, 24, 40}, DType::f16, GetParam()), out({2, 7, 19, 40}));
  });
  EXPECT_THAT(found, AllOf(HasSubstr("T1306"), HasSubstr("leaves out arg2[0, 0, 0, 0]"),
                           HasSubstr("fill_absent(x(..), 0)"), HasSubstr("arg0 at "),
                           Not(HasSubstr("crop")), Not(HasSubstr("arg1 at "))));
}

// ---- extents of tiles ---------------------------------------------------------------------------

TEST_P(LostElements, AnExtentOfATileReadByAll) {
  const auto mean_of = [](int how) {
    return kernel("mean", [how](In<f32, 1> x, Out<f32, 1> z) {
      for (auto p : grid(z, 1)) {
        const Tile v = x(all);
        if (how == 0) z(p) = sum(v) / float(v.dim(0));
        if (how == 1) z(p) = sum(v) / float((v * 2.0f).expand(0).dim(-1));
        if (how == 2) z(p) = sum(v + zeros<f32>(v.dim(0))) / cast<f32>(x.dim(0));
        if (how == 3) z(p) = mean(v, 0);
        if (how == 4) z(p) = sum(x(slice(0, 16))) / float(x(slice(0, 10)).dim(0));
        if (how == 5 || how == 6) {
          Tile carried = how == 5 ? v : zeros<f32>(16);
          for ([[maybe_unused]] auto round : steps(3, 1)) carried = carried * float(carried.dim(0));
          z(p) = sum(carried) / 65536.0f + 1.0f;
        }
      }
    });
  };
  for (const int how : {0, 1, 5})
    EXPECT_THAT(found_by([&] { mean_of(how)(ones({10}), out({1})); }),
                AllOf(HasSubstr("T0229"), HasSubstr("x.dim(0)")));
  for (const int how : {2, 3, 4, 6}) {
    const Tensor z = out({1});
    EXPECT_EQ(found_by([&] { mean_of(how)(ones({10}), z); }), "") << how;
    EXPECT_EQ(z.to_doubles()[0], 1) << how;
  }
}

TEST_P(LostElements, ABlockOfOneThatKeepsItsDimension) {
  for (const int block : {1, 4}) {
    const auto sums = kernel("sums", [block](In<f32, 2> x, Out<f32, 1> y) {
      for (auto i : grid(y, block)) {
        const Index r = keep(i);
        y(r) = sum(x(r, all), 1) + cast<f32>(r.indices());
      }
    });
    const Tensor y = out({9});
    EXPECT_EQ(found_by([&] { sums(ones({9, 64}), y); }), "") << block;
    EXPECT_EQ(y.to_doubles()[8], 72) << block;
  }
  const auto drops = kernel("drops", [](In<f32, 2> x, Out<f32, 1> y) {
    for (auto r : grid(y, 1)) y(r) = sum(x(r, all), 1);
  });
  EXPECT_THAT(found_by([&] { drops(ones({9, 64}), out({9})); }),
              AllOf(HasSubstr("T0202"), HasSubstr("keep(i)")));
}

TEST_P(LostElements, AHeadDimBeyondTheLimit) {
  const auto t = [&](int n) { return Tensor::zeros({1, 1, 32, n}, DType::bf16, GetParam()); };
  const auto hint_of = [&](int qk, int v) {
    return found_by([&] { attention({})(t(qk), t(qk), t(v), t(v)); });
  };
  EXPECT_THAT(hint_of(64, 512),
              AllOf(HasSubstr("T1604"), HasSubstr("parts of at most 256"), Not(HasSubstr("pad"))));
  EXPECT_THAT(hint_of(64, 20), HasSubstr("zeros to 24"));
  const Tensor v = Tensor::full({1, 1, 32, 512}, 2, DType::bf16, GetParam()), o = t(512);
  for (int from = 0; from < 512; from += 256)
    attention({})(t(64), t(64), v.slice(3, from, from + 256), o.slice(3, from, from + 256));
  EXPECT_EQ(o.to_doubles()[511], 2);
}

}  // namespace
}  // namespace tegula::test::lost_elements_test
